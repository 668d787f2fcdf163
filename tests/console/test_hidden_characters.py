"""Invisible characters: escaped for reading, unchanged in values that forms send back."""

from collections.abc import AsyncIterator

import pytest

from tests.console.document_pages import MANAGE, READ, VERIFY, facts, page_of, put
from tests.support.configuration import Config, make_preset
from tests.support.console_browser import ConsoleService, Html, running_console
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.tables import named_row

TRY = "/console/try"
NO_READERS: dict[str, list[str]] = {"users": [], "roles": []}
NAMES = [
    f"an{hidden}n" for hidden in ("\u00ad", "\u200d", "\u202e", "\u2028", "\ufeff", "\U000e0041")
]


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console() as started:
        yield started


async def test_unedited_readers_stay_unchanged(console: ConsoleService) -> None:
    for number, name in enumerate(NAMES):
        with named_row(name):
            doc_id = f"note{number}"
            await put(console, doc_id, reader_user=[name, "bob"], reader_role=name)
            page = await console.browser.open(page_of(MANAGE, doc_id))
            shown = page.text.partition("Read access")[0]
            assert (name in shown, name.encode("unicode_escape").decode() in shown) == (False, True)
            await console.browser.press(MANAGE, on=page_of(MANAGE, doc_id))
            found = (await facts(console))[doc_id]
            assert found["readers"] == {"users": sorted([name, "bob"]), "roles": [name]}  # type: ignore[index]


async def test_a_document_is_changed_and_removed_by_its_exact_id(console: ConsoleService) -> None:
    for name in NAMES:
        with named_row(name):
            await put(console, name)
            page = await console.browser.open(page_of(MANAGE, name))
            forms = [it for it in page.forms if it.action == MANAGE]
            (readers,) = [it for it in forms if "readers" in it.fields]
            remove = forms[-1]
            changed = await console.browser.post(MANAGE, {**readers.fields, "readers": "nobody"})
            assert changed.status_code == 303
            assert (await facts(console))[name]["readers"] == NO_READERS  # type: ignore[index]
            fields = (await console.browser.open(page_of(READ, name))).form(READ).fields
            assert fields["doc_id"] == name
            removed = await console.browser.post(MANAGE, remove.fields)
            assert (removed.status_code, await facts(console)) == (303, {})


async def test_the_nearest_passage_is_verified_unchanged(console: ConsoleService) -> None:
    text = "# T\n\nThe agree\u00adment ends after ten minutes of waiting for it.\n"
    await put(console, "soft", text.encode())
    quote = "The agreement ends after nine minutes of waiting"
    near = await console.browser.press(VERIFY, {"quote": quote}, on=page_of(VERIFY, "soft"))
    again = [it for it in Html(near.text).forms if "quote" in it.fields][-1]
    assert "agree\u00adment" in again.fields["quote"]
    verified = await console.browser.post(VERIFY, again.fields)
    assert "Found word for word" in verified.text


async def test_a_tool_is_run_by_its_exact_name() -> None:
    name = "od\u200dd"
    tool = {"name": name, "inputSchema": {"type": "object"}}
    async with running_raw(only=("echo",), extra={"tools": [tool]}) as server:
        config = Config(
            servers={"s": server.entry},
            presets=[make_preset("work", tools=[("s", name)])],
            more={"defaultPresetId": "work"},
        )
        async with running_console(config=config, require_agent=False) as console:
            caller = {"tenant_id": "acme", "user_id": "ann"}
            page = await console.browser.open(TRY, tool=f"s:{name}", **caller)
            assert f"s:{name}" not in page.text
            assert "s:od\\u200dd" in page.text
            fields = page.form(TRY).fields
            assert fields["tool"] == f"s:{name}"
            raw = await console.browser.post(TRY, {**fields, "do": "raw"})
            typed = {**Html(raw.text).form(TRY).fields, "raw": '{"a": "x\u00ady"', "do": "check"}
            kept = Html((await console.browser.post(TRY, typed)).text).form(TRY).fields
            assert kept["raw"] == typed["raw"]


async def test_a_value_that_a_form_sends_back_is_escaped_as_usual(console: ConsoleService) -> None:
    markup = "\"'></textarea><img src=x onerror=alert(1)>"
    await put(console, markup, reader_user=markup)
    page = await console.browser.open(page_of(MANAGE, markup))
    assert all("onerror" not in attributes for _, attributes in page.tags)
    assert page.form(MANAGE).fields["doc_id"] == markup
    assert page.form(MANAGE).fields["users"] == markup
