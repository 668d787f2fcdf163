"""Attacks on the console and unusual offers of servers: no crash and no endless page."""

from base64 import urlsafe_b64encode
from typing import Any

import pytest

from tests.console.document_pages import UPLOAD
from tests.support.configuration import Config, make_preset
from tests.support.console_browser import (
    FORM_TYPE,
    ORIGIN,
    ConsoleBrowser,
    Html,
    running_console,
)
from tests.support.loop_turns import in_short_turns
from tests.support.mcp_servers.raw_web import running_raw

VISIBILITY = "/console/visibility"
TRY = "/console/try"
CALLER = {"tenant_id": "acme", "user_id": "ann"}
MAX_PAGE_CHARS = 150_000

LONG = {
    "name": "long",
    "inputSchema": {
        "type": "object",
        "properties": {
            f"p{n}": {"enum": [f"{'<' * 90}{it}" for it in range(40)]} for n in range(80)
        },
    },
}


async def small_page(browser: ConsoleBrowser, path: str, expected: int = 200) -> Html:
    response = await browser.get(path)
    assert response.status_code == expected, Html(response.text).text
    assert len(response.text) < MAX_PAGE_CHARS
    return Html(response.text)


@pytest.mark.parametrize(
    "address",
    [
        f"{VISIBILITY}?agent=nobody",
        f"{VISIBILITY}/tool?agent=nobody&name=x",
        f"{VISIBILITY}?compare=yes&other_agent=nobody",
    ],
)
async def test_a_preview_as_an_agent_without_a_profile_is_an_error(address: str) -> None:
    async with running_console() as console:
        page = await small_page(console.browser, address, 422)
        assert "no agent profile is named" in page.text.lower()


async def test_a_preset_with_thousands_of_missing_tools_has_a_bounded_page() -> None:
    missing = [("dead", f"tool{n:04}") for n in range(3000)]
    config = Config(
        servers={"dead": {"url": "http://127.0.0.1:9/mcp"}},
        presets=[make_preset("work", tools=missing)],
        more={"defaultPresetId": "work"},
    )
    async with running_console(config=config) as console:
        page = await small_page(console.browser, VISIBILITY)
        assert "tool0019" in page.text
        assert "tool0020" not in page.text
        assert "And 2,980 more" in page.text


@pytest.mark.parametrize("path", [f"{VISIBILITY}/tool?name=s:long", f"{TRY}?tool=s:long"])
async def test_a_schema_with_many_long_values_has_a_bounded_page(path: str) -> None:
    async with running_raw(only=("echo",), extra={"tools": [LONG]}) as server:
        config = Config(
            servers={"s": server.entry},
            presets=[make_preset("work", tools=[("s", "long")])],
            more={"defaultPresetId": "work"},
        )
        async with running_console(config=config, require_agent=False) as console:
            page = await small_page(console.browser, f"{path}&tenant_id=acme&user_id=ann")
            assert "characters" in page.text or "too many choices" in page.text


async def test_a_forged_form_to_add_a_row_is_harmless() -> None:
    def named(letter: str, path: str) -> str:
        return f"{letter}.{urlsafe_b64encode(path.encode()).decode().rstrip('=')}"

    async with running_console(require_agent=False) as console:
        page = await console.browser.open(TRY, tool="no-such", **CALLER)
        fields: dict[str, Any] = {
            "csrf": page.form(TRY).fields["csrf"],
            "tool": "no-such",
            **CALLER,
            named("j", "[]"): '[[1], {"a": [2]}]',
        }
        for place in ("", named("x", "[0]")[2:], named("x", '[1,"a"]')[2:]):
            response = await console.browser.post(TRY, {**fields, "do": f"add.{place}"})
            assert response.status_code == 200


async def test_an_overlong_boundary_is_refused() -> None:
    async with running_console() as console:
        kind = f"multipart/form-data; boundary={'b' * 5000}"
        headers = {"content-type": kind, "origin": ORIGIN}
        response = await console.browser.send("POST", UPLOAD, b"", headers)
        assert response.status_code == 422
        assert "form could not be read" in Html(response.text).text


FORMS = {
    "percent-encoded": b"raw=" + b"%41" * 320_000,
    "lines": b"roles=" + b"a%0A" * 240_000,
    "fields": b"&".join(b"f%d=a" % number for number in range(1_900)),
}


@pytest.mark.parametrize("name", FORMS)
async def test_a_large_form_does_not_block_the_event_loop(name: str) -> None:
    async with running_console() as console:
        page = Html((await console.browser.get(TRY)).text)
        csrf = next(it.fields["csrf"] for it in page.forms if "csrf" in it.fields).encode()
        form = b"tenant_id=a&user_id=b&csrf=%b&%b" % (csrf, FORMS[name])
        sent = {"content-type": FORM_TYPE, "origin": ORIGIN}
        await console.browser.send("POST", TRY, b"csrf=" + csrf, sent)
        response = await in_short_turns(lambda: console.browser.send("POST", TRY, form, sent))
    assert response.status_code in (200, 422)


async def test_links_contain_no_unknown_parameters() -> None:
    query = "&".join(f"x{number}=1" for number in range(6_000))
    async with running_console() as console:
        page = await console.browser.get(f"{VISIBILITY}?q=read&{query}")
    assert page.status_code == 200
    assert "q=read" in page.text
    assert "x5999" not in page.text
