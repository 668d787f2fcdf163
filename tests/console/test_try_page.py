"""The page "Try": available tools, their forms, and explanations of calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.console_browser import ConsoleBrowser, ConsoleService, Html, running_console
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.tokens import file_token, signed_token, token_settings
from tests.support.tokens import jwt_settings as jwt

TRY = "/console/try"
MARKUP = '<script>alert(1)</script><img src=x onerror="alert(2)">'
CALLER = {"tenant_id": "tenant_1", "user_id": "ann"}
PLAN: dict[str, Any] = {
    "name": "plan",
    "description": f"Plans a journey. {MARKUP}",
    "inputSchema": {
        "type": "object",
        "properties": {
            "days": {"type": "integer", "minimum": 1},
            "stops": {"type": "array", "items": {"type": "string"}},
            MARKUP: {"type": "string", "description": MARKUP, "default": MARKUP},
            "kind": {"enum": [MARKUP, "plain"]},
        },
        "required": ["days"],
    },
}


def many_tools(count: int) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {}}
    return [
        {"name": f"tool{n:04}", "description": "x", "inputSchema": schema} for n in range(count)
    ]


@asynccontextmanager
async def serving(
    tools: list[dict[str, Any]] | None = None, **settings: Any
) -> AsyncIterator[ConsoleService]:
    """Serve a console with one server whose tools have these descriptors."""
    shown = tools or [PLAN]
    async with running_raw(only=("echo", "hang"), extra={"tools": shown}) as server:
        names = ("echo", "hang", *(it["name"] for it in shown))
        config = Config(
            servers={"s": server.entry},
            presets=[make_preset(tools=[("s", it) for it in names])],
            agents=[make_agent("narrow", exclude=["s:plan"])],
            more={"defaultPresetId": "work"},
        )
        settings = {"require_agent": False, **settings}
        async with running_console(config=config, **settings) as console:
            yield console


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with serving() as started:
        yield started


async def send(browser: ConsoleBrowser, action: str, page: Html, **changes: str) -> Html:
    """Press a button of a page's form after changing some of its fields."""
    response = await browser.post(TRY, {**page.form(TRY).fields, "do": action, **changes})
    assert response.status_code == 200, Html(response.text).text
    return Html(response.text)


def named(page: Html, letter: str, label: str) -> str:
    fields = [it for it in page.form(TRY).fields if it.startswith(f"{letter}.")]
    return next(it for it in fields if label in _path(it))


def _path(name: str) -> str:
    from base64 import urlsafe_b64decode  # noqa: PLC0415 - of this test alone

    key = name.partition(".")[2]
    return urlsafe_b64decode(key + "=" * (-len(key) % 4)).decode()


async def open_plan(browser: ConsoleBrowser, **more: str) -> Html:
    return await browser.open(TRY, tool="s:plan", **CALLER, **more)


async def test_the_tools_of_a_caller_are_listed_with_links_to_their_forms(
    console: ConsoleService,
) -> None:
    page = await console.browser.open(TRY, **CALLER)
    assert "s:plan" in page.text
    (link,) = [it for it in page.links if "s%3Aplan" in it]
    form = await console.browser.open(link)
    assert form.form(TRY).fields["tool"] == "s:plan"
    assert "days required" in form.text
    narrow = await console.browser.open(TRY, agent="narrow", **CALLER)
    assert ("s:plan" in narrow.text, "s:echo" in narrow.text) == (False, True)


async def test_a_filter_finds_tools_or_reports_no_match(console: ConsoleService) -> None:
    page = await console.browser.open(TRY, q="JOURNEY plan", **CALLER)
    assert ("s:plan" in page.text, "s:echo" in page.text) == (True, False)
    page = await console.browser.open(TRY, q="nothing-like-it", **CALLER)
    assert "No matching tools" in page.text


async def test_five_thousand_tools_are_paged() -> None:
    async with serving(many_tools(5000)) as console:
        response = await console.browser.get(f"{TRY}?tenant_id=t&user_id=u&q=tool4&page=20")
        page = Html(response.text)
        assert len(response.text) < 60_000
        assert "1,000 of 5,0" in page.text
        assert "s:tool4999" in page.text
        assert any("page=19" in it for it in page.links)
        for odd in ("0", "-1", "x", "9" * 30, "102"):
            assert (await console.browser.get(f"{TRY}?page={odd}")).status_code == 200


async def test_rows_can_be_added_and_removed_without_losing_input(
    console: ConsoleService,
) -> None:
    browser = console.browser
    page = await open_plan(browser)
    days, stop = named(page, "i", "days"), named(page, "s", "stops")
    key = named(page, "a", "stops").partition(".")[2]
    page = await send(browser, f"add.{key}", page, **{days: "many", stop: "Ulm & <b>Bern</b>"})
    assert page.form(TRY).fields[days] == "many"
    assert page.form(TRY).fields[stop] == "Ulm & <b>Bern</b>"
    assert "Enter a whole number." in page.text
    second = [it for it in page.form(TRY).fields if "stops" in _path(it) and it.startswith("s.")][1]
    page = await send(browser, f"remove.{stop.partition('.')[2]}", page, **{second: "Rome"})
    assert page.form(TRY).fields[stop] == "Rome"
    page = await send(browser, "raw", page)
    assert '"days": "many"' in page.form(TRY).fields["raw"]
    page = await send(browser, "form", page)
    assert page.form(TRY).fields[stop] == "Rome"


async def test_unreadable_arguments_are_not_sent(console: ConsoleService) -> None:
    browser = console.browser
    page = await open_plan(browser)
    page = await send(browser, "explain", page, **{named(page, "i", "days"): "x"})
    assert "Nothing was sent" in page.text
    assert "Enter a whole number." in page.text
    page = await send(browser, "raw", page)
    for text in ('{"days": 1,', "[1]", '{"a":1,"a":2}'):
        page = await send(browser, "form", page, raw=text)
        assert page.form(TRY).fields["raw"] == text
        page = await send(browser, "run", page, raw=text)
        assert "Nothing was sent" in page.text


TEXTS: dict[str, Any] = {
    "name": "texts",
    "inputSchema": {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "place": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
            "note": {"type": "string"},
        },
        "required": ["title", "place"],
    },
}


async def test_a_required_text_must_be_filled_in_before_the_call() -> None:
    async with serving([TEXTS]) as console:
        browser = console.browser
        page = await browser.open(TRY, tool="s:texts", **CALLER)
        title, city = named(page, "s", "title"), named(page, "s", "city")
        page = await send(browser, "run", page)
        assert page.text.count("Enter a value.") == 2
        assert "No runs yet" in page.text
        page = await send(browser, "run", page, **{title: "x"})
        assert page.text.count("Enter a value.") == 1
        page = await send(browser, "check", page)
        assert "Enter a value." not in page.text
        page = await send(browser, "run", page, **{city: "Ulm"})
        assert "Nothing was sent" not in page.text
        raw = await send(browser, "raw", await browser.open(TRY, tool="s:texts", **CALLER))
        empty = '{"title": "", "place": {"city": ""}}'
        page = await send(browser, "run", raw, raw=empty)
        assert "Nothing was sent" not in page.text


async def test_a_caller_is_required(console: ConsoleService) -> None:
    page = await open_plan(console.browser)
    page = await send(console.browser, "run", page, tenant_id="", user_id=" ")
    assert "Enter a tenant." in page.text
    assert "Enter a user." in page.text


async def test_a_call_can_be_explained_without_running_it(console: ConsoleService) -> None:
    page = await open_plan(console.browser)
    days = named(page, "i", "days")
    page = await send(console.browser, "explain", page, **{days: "2"})
    assert "Would be allowed" in page.text
    assert "Sent to server s as plan, with the arguments days" in page.text
    page = await send(console.browser, "explain", page, agent="narrow")
    assert "Would be refused: TOOL_NOT_ALLOWED" in page.text
    assert "agents.json" in page.text
    assert "No runs yet" in page.text


async def test_the_call_is_also_shown_for_programs_without_the_request_host() -> None:
    async with serving(public_url="https://gateway.example") as console:
        browser = console.browser
        response = await browser.get(f"{TRY}?tool=s:plan&tenant_id=t&user_id=u")
        fields = Html(response.text).form(TRY).fields
        response = await browser.post(
            TRY, {**fields, "do": "explain"}, origin="https://gateway.example"
        )
        assert "https://gateway.example/internal/mcp/execute" in Html(response.text).text


async def test_without_a_public_address_the_samples_have_a_placeholder(
    console: ConsoleService,
) -> None:
    page = await send(console.browser, "explain", await open_plan(console.browser))
    assert "http://HOST:PORT/internal/mcp/execute" in page.text
    assert "localhost" not in page.text


async def test_texts_of_servers_and_callers_are_escaped(console: ConsoleService) -> None:
    browser = console.browser
    page = await open_plan(browser, agent=MARKUP)
    pages = [
        page,
        await send(browser, "explain", page, tool=MARKUP),
        await browser.open(TRY, q=MARKUP),
    ]
    pages.append(await send(browser, "raw", page, tool="s:plan"))
    for shown in pages:
        assert MARKUP in shown.text or MARKUP in str(shown.tags)
        names = [tag for tag, _ in shown.tags]
        assert names.count("script") == 2
        assert [it for _, it in shown.tags if "onerror" in it] == []


async def test_a_hidden_tool_can_be_explained(
    console: ConsoleService,
) -> None:
    page = await console.browser.open(TRY, tool="s:nothing", **CALLER)
    assert "This caller has no access to the tool" in page.text
    page = await send(console.browser, "explain", page)
    assert "Would be refused: TOOL_NOT_" in page.text


async def test_a_schema_without_a_form_is_edited_as_json() -> None:
    properties = {f"p{n}": {"type": "string"} for n in range(5000)}
    wide = {"name": "wide", "inputSchema": {"type": "object", "properties": properties}}
    async with serving([wide]) as console:
        response = await console.browser.get(f"{TRY}?tool=s:wide&tenant_id=t&user_id=u")
        assert len(response.text) < 60_000
        page = Html(response.text)
        assert "Shown as JSON because it needs more than 80 fields on one page." in page.text
        page = await send(console.browser, "explain", page, **{"j.": '{"p7": "x"}'})
        assert "with the arguments p7" in page.text


async def test_the_page_needs_the_right_to_run_tools() -> None:
    token = file_token(may=[OperatorRight.AUDIT])
    async with serving(**token_settings(), admin_token=None) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        refused = await browser.get(TRY)
        assert refused.status_code == 403
        assert TRY not in Html(refused.text).links


async def test_a_right_for_one_tenant_can_run_only_for_that_tenant() -> None:
    token = file_token(tenant="tenant_1", may=[OperatorRight.RUN, OperatorRight.AUDIT])
    async with serving(**token_settings(), admin_token=None) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        page = await browser.open(TRY, tool="s:plan", user_id="ann", tenant_id="tenant_2")
        assert "tenant_id" not in page.form(TRY).fields
        assert "tenant_2" not in page.text
        page = await send(browser, "explain", page, tenant_id="tenant_2")
        assert '"tenant_id": "tenant_1"' in page.text
        assert "tenant_2" not in page.text


async def test_without_the_right_to_explain_the_button_is_hidden() -> None:
    token = file_token(may=[OperatorRight.RUN])
    async with serving(**token_settings(), admin_token=None) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        page = await browser.open(TRY, tool="s:plan", user_id="ann")
        assert "Explain without running" not in page.text
        page = await send(browser, "explain", page, mode="raw", raw='{"days": 1}')
        assert "FORBIDDEN" in page.text
        assert page.form(TRY).fields["raw"] == '{"days": 1}'


async def test_a_user_with_a_jwt_can_run_tools_only_as_themselves() -> None:
    async with serving(**jwt(), admin_token=None) as console:
        browser = console.new_browser()
        await browser.sign_in(signed_token(user="ann"))
        page = await browser.open(TRY, tool="s:plan", tenant_id="tenant_2", user_id="bob")
        assert "Tools run as you" in page.text
        assert "Explain without running" not in page.text
        fields = {"tenant_id": "tenant_2", "user_id": "bob", named(page, "i", "days"): "3"}
        page = await send(browser, "run", page, **fields)
        assert "Succeeded" in page.text
        assert '{"server": "raw", "tool": "plan", "arguments": {"days": 3}}' in page.text
        assert "tenant_2" not in page.text
        await _is_kept_until_the_sign_out(console, browser, page)


async def _is_kept_until_the_sign_out(
    console: ConsoleService, browser: ConsoleBrowser, page: Html
) -> None:
    (link,) = [it for it in page.links if "again=" in it]
    again = await browser.open(link)
    assert again.form(TRY).fields[named(again, "i", "days")] == "3"
    other = console.new_browser()
    await other.sign_in(signed_token(user="ann"))
    assert "No runs yet" in (await other.open(TRY)).text
    await browser.press("/console/sign-out", on="/console/servers")
    await browser.sign_in(signed_token(user="ann"))
    assert "No runs yet" in (await browser.open(TRY)).text


def states(page: Html) -> set[str]:
    """Return the displayed states."""
    classes = [(it.get("class") or "").split() for _, it in page.tags]
    return {it[1] for it in classes if it[:1] == ["state"]}


async def test_an_error_shows_advice_and_marks_the_argument() -> None:
    async with serving(**jwt(), admin_token=None) as console:
        browser = console.new_browser()
        await browser.sign_in(signed_token(user="ann"))
        page = await open_plan(browser)
        page = await send(browser, "run", page, **{named(page, "i", "days"): "0"})
        assert "INVALID_ARGUMENTS" in page.text
        assert states(page) == {"warn"}
        assert "What to do: Correct the arguments" in page.text
        marked = [it["name"] for _, it in page.tags if it.get("aria-invalid") == "true"]
        assert marked == [named(page, "i", "days")]
        page = await send(browser, "run", page, agent="narrow", **{named(page, "i", "days"): "1"})
        assert "TOOL_NOT_ALLOWED" in page.text


async def test_twenty_tries_are_stored() -> None:
    async with serving(**jwt(), admin_token=None) as console:
        browser = console.new_browser()
        await browser.sign_in(signed_token(user="ann"))
        page = await open_plan(browser)
        for number in range(22):
            page = await send(browser, "run", page, **{named(page, "i", "days"): str(number + 1)})
        links = [it for it in page.links if "again=" in it]
        assert [it.rpartition("=")[2] for it in links] == [str(it) for it in range(22, 2, -1)]
        forgotten = await browser.get(f"{TRY}?again=1")
        assert forgotten.status_code == 200


async def test_a_form_without_the_csrf_token_runs_nothing(console: ConsoleService) -> None:
    page = await open_plan(console.browser)
    fields = {**page.form(TRY).fields, "do": "run", "csrf": "x"}
    response: httpx.Response = await console.browser.post(TRY, fields)
    assert response.status_code == 403
