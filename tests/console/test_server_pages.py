"""Servers in the console: state, offers, changes, and actions."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.console.changed_definitions import accept_all, change
from tests.console.server_pages import LIST, OBJECT, S1, serving
from tests.support.configuration import Config, Json, make_preset
from tests.support.console_browser import (
    ConsoleBrowser,
    ConsoleService,
    Html,
    running_console,
)
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import SERVERS, eventually
from tests.support.tokens import bearer, file_token, token_settings

MARKUP = "<img src=x onerror=alert(1)>\"'&amp;</script>"
HOSTILE: Json = {
    "name": MARKUP,
    "title": MARKUP,
    "description": MARKUP,
    "inputSchema": {
        "type": "object",
        "properties": {
            MARKUP: {"type": "string", "description": MARKUP, "enum": [MARKUP], "default": MARKUP}
        },
    },
    "annotations": {"title": MARKUP, "destructiveHint": True},
}


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with running_raw(only=("echo", "whoami", "meta")) as started:
        yield started


async def holder(*rights: OperatorRight, console: ConsoleService, **token: Any) -> ConsoleBrowser:
    """Return the browser of a user with only these rights."""
    secret = file_token(**{"tenant": None, "may": rights, **token})
    assert console.service.gateway.tokens is not None
    await console.service.gateway.tokens.load()
    browser = console.new_browser()
    await browser.sign_in(secret)
    return browser


def columns(page: Html) -> list[str]:
    """Return the link targets of the column headings."""
    return [link for link in page.links if "?sort=" in link]


async def test_without_servers_the_page_explains_how_to_add_one() -> None:
    async with running_console() as console:
        assert "mcp.json" in (await console.browser.open(LIST)).text


async def test_the_list_has_states_with_errors_and_links_to_each(server: RawServer) -> None:
    absent = {"command": "/no/such/program"}
    off = {"command": "x", "enabled": False}
    async with serving(server.entry, absent, off) as console:
        page = await console.browser.open(LIST)
        assert {S1, f"{LIST}/s2", f"{LIST}/s3"} <= set(page.links)
        for word in ("ready", "disabled", "was not found"):
            assert word in page.text
        page = await console.browser.open(f"{LIST}/s2")
        assert "“command” can be started" in page.text


async def test_the_slow_server_is_marked_and_sorts_first(server: RawServer) -> None:
    async with serving(server.entry, server.entry) as console:
        page = await console.browser.open(LIST)
        assert "slowest" not in page.text
        for _ in range(3):
            await console.service.execute("s1:echo", {"text": "a"})
        await console.service.execute("s1:whoami", {})
        page = await console.browser.open(LIST)
        assert "slowest" in page.text
        page = await console.browser.open(columns(page)[-1])
        rows = [link for link in page.links if link in (S1, f"{LIST}/s2")]
        assert rows[0] == S1
        page = await console.browser.open(S1)
        assert "Calls in the last hour4" in page.text
        (slowest,) = [it for it in page.links if "min_ms=" in it]
        assert "/console/calls/" in str((await console.browser.open(slowest)).links)
        assert [it for it in page.links if "code=failed" in it] == []
        await console.service.execute("s1:echo", {"text": 5})
        refused = await console.browser.open(S1)
        assert "Not sent (refused or replayed)1" in refused.text
        assert [it for it in refused.links if "code=failed" in it] == []


async def test_an_unknown_server_is_not_found(server: RawServer) -> None:
    async with serving(server.entry) as console:
        for path in (f"{LIST}/s9", f"{LIST}/a%2Fb", f"{LIST}/%3Cb%3E", f"{LIST}/"):
            response = await console.browser.get(path)
            assert (response.status_code, "<b>" in response.text) == (404, False), path


async def test_an_entry_with_any_name_has_a_page() -> None:
    config = Config(servers={"<b>odd:/id?&": {"command": "x"}}, presets=[make_preset()])
    async with running_console(config=config) as console:
        (link,) = [it for it in (await console.browser.open(LIST)).links if "odd" in it]
        page = await console.browser.open(link)
        assert "is not a server id" in page.text
        assert "Reconnect now" not in page.text
        csrf = page.form("/console/sign-out").fields["csrf"]
        refused = await console.browser.post(link, {"csrf": csrf, "action": "reconnect"})
        assert (refused.status_code, "NOT_FOUND" in refused.text) == (404, True)


async def test_items_are_listed_with_the_reason_why_the_preset_hides_them(
    server: RawServer,
) -> None:
    entry = {**server.entry, "exclude": ["whoami"]}
    async with serving(entry) as console:
        page = await console.browser.open(S1)
        assert "excluded" in page.text
        assert "not in the preset" in page.text
        (link,) = [it for it in page.links if "name=whoami&" in it]
        item = await console.browser.open(link)
        assert "The server’s entry in mcp.json lists it in “exclude”" in item.text
        (link,) = [it for it in page.links if "name=meta&" in it]
        item = await console.browser.open(link)
        assert "Add it to preset_work.json, or switch" in item.text


async def test_without_a_preset_the_page_of_a_tool_says_to_choose_one(server: RawServer) -> None:
    config = Config(servers={"s1": server.entry})
    async with running_console(config=config) as console:
        item = await console.browser.open(f"{S1}?kind=tool&name=echo")
        assert "No preset is active" in item.text


async def test_hundreds_of_servers_are_paged_in_their_order() -> None:
    long = {"command": "x", "enabled": False}
    config = Config(servers={f"s{number:03}": long for number in range(120)})
    async with running_console(config=config) as console:
        seen: list[str] = []
        path = LIST
        while path:
            page = await console.browser.open(path)
            seen += [it for it in page.links if it.startswith(f"{LIST}/s")]
            path = next((it for it in page.links if f"?first={len(seen)}" in it), "")
        assert seen == [f"{LIST}/s{number:03}" for number in range(120)]
        page = await console.browser.open(LIST, sort="total", first="50")
        assert "51–100 of 120" in page.text
        assert {f"{LIST}?sort=total", f"{LIST}?sort=total&first=100"} <= set(page.links)
        assert "1–50 of 120" in (await console.browser.open(LIST, first="999")).text


async def test_thousands_of_tools_are_paged_and_each_page_is_small() -> None:
    tools = [
        {
            "name": f"tool_{number:04}",
            "description": "Does <much> & more. " * 40,
            "inputSchema": {"type": "object", "properties": {f"a{it}": {} for it in range(20)}},
        }
        for number in range(400)
    ]
    async with (
        running_raw(only=(), extra={"tools": tools}) as server,
        serving(server.entry, tools=["tool_0001"]) as console,
    ):
        path, names = S1, set()
        for _ in range(5):
            response = await console.browser.get(path)
            assert len(response.content) < 60_000
            page = Html(response.text)
            items = [it for it in page.links if "name=tool_" in it]
            names |= {it.partition("name=")[2][:9] for it in items}
            following = [it for it in page.links if "tab=offers&cursor" in it]
            if not following:
                break
            path = following[0]
        assert len(names) == 400
        assert "a19" in (await console.browser.open(f"{S1}?kind=tool&name=tool_0001")).text


async def test_a_schema_has_a_readable_outline_and_json(server: RawServer) -> None:
    place: Json = {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Name of the place"}},
        "required": ["name"],
    }
    tool: Json = {
        "name": "forecast",
        "description": "Forecast.",
        "inputSchema": {
            "type": "object",
            "$defs": {"Place": place},
            "properties": {
                "place": {"$ref": "#/$defs/Place"},
                "units": {"enum": ["metric", "imperial"], "default": "metric"},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
            },
            "required": ["place"],
        },
        "annotations": {"readOnlyHint": True},
    }
    async with (
        running_raw(only=(), extra={"tools": [tool]}) as server,
        serving(server.entry, tools=["forecast"]) as console,
    ):
        address = f"{S1}?kind=tool&name=forecast"
        text = (await console.browser.open(address)).text
        for words in (
            "place object, required",
            "name string, required Name of the place",
            'units one of, default "metric"',
            "integer, at least 1, at most 14",
            "read-only",
        ):
            assert words in text
        download = await console.browser.get(f"{address}&as=json")
        assert download.json() == tool
        assert download.headers["content-disposition"].startswith("attachment")
        assert download.headers["x-content-type-options"] == "nosniff"
        absent = await console.browser.get(f"{S1}?kind=tool&name=other")
        assert (absent.status_code, "No longer offered" in absent.text) == (404, True)


async def test_a_schema_of_recursive_unions_has_a_page() -> None:
    definitions: Json = {
        f"n{level}": {"anyOf": [{"$ref": f"#/$defs/n{(level + 1) % 30}"}] * 6}
        for level in range(30)
    }
    answer: Json = {"$defs": definitions, "properties": {"a": {"$ref": "#/$defs/n0"}}}
    tool: Json = {"name": "endless", "inputSchema": OBJECT, "outputSchema": answer}
    async with (
        running_raw(only=(), extra={"tools": [tool]}) as server,
        serving(server.entry, tools=["endless"]) as console,
    ):
        page = await console.browser.open(f"{S1}?kind=tool&name=endless")
        assert "endless" in page.text  # without the output schema, which clients cannot compile


async def test_server_texts_are_never_markup() -> None:
    long = {"name": "long", "description": MARKUP * 5_000, "inputSchema": OBJECT}
    async with (
        running_raw(only=("echo",), extra={"tools": [HOSTILE, long]}) as server,
        serving(server.entry, tools=[MARKUP, "echo", "long"], definitions="pin") as console,
    ):
        await accept_all(console)
        await change(console, server, f"{MARKUP} new")
        pages = [S1, f"{S1}?tab=changes", LIST]
        pages += [it for it in (await console.browser.open(S1)).links if "kind=" in it]
        for path in pages:
            response = await console.browser.get(path)
            assert response.status_code == 200, path
            assert "<img src=x" not in response.text, path
            assert [it for _, it in Html(response.text).tags if "onerror" in it] == [], path
            assert len(response.content) < 60_000, path


async def test_a_server_can_be_reconnected(server: RawServer) -> None:
    async with serving(server.entry) as console:
        page = await console.browser.open(S1)
        fields = next(it.fields for it in page.forms if it.fields.get("action") == "reconnect")
        done = await console.browser.post(S1, fields)
        page = await console.browser.open(done.headers["location"])
        assert "Reconnecting s1" in page.text
        assert S1 in page.links

        async def is_back() -> bool:
            (status,) = (await console.service.get(SERVERS))["servers"]
            return (status["state"], status["reconnects"]) == ("ready", 1)

        await eventually(is_back)


async def test_a_page_refreshes_while_a_server_is_connecting() -> None:
    def polled(page: Html) -> list[str | None]:
        return [it["hx-get"] for _, it in page.tags if it.get("id") == "state" and "hx-get" in it]

    async with serving({"command": "/no/such/program"}) as console:
        page = await console.browser.open(f"{S1}?polls=999")
        assert polled(page) == [f"{S1}?part=state&polls=4"]
        page = await console.browser.open(f"{S1}?part=state&polls=4")
        assert polled(page) == [f"{S1}?part=state&polls=3"]
        assert "Last error:" in page.text
        assert "Reconnect now" in page.text
        page = await console.browser.open(f"{S1}?part=state&polls=0")
        assert (polled(page), S1 in page.links) == ([], True)


async def test_an_unknown_action_is_refused(server: RawServer) -> None:
    async with serving(server.entry) as console:
        page = await console.browser.open(S1)
        csrf = page.form("/console/sign-out").fields["csrf"]
        refused = await console.browser.post(S1, {"csrf": csrf, "action": "remove"})
        assert refused.status_code == 422


@pytest.mark.parametrize("tenant", [None, "acme"])
async def test_without_the_right_states_are_shown_but_no_buttons(
    server: RawServer, tenant: str | None
) -> None:
    broken = {"command": "/no/such/program"}
    rights = [OperatorRight.TOKENS] if tenant is None else [*OperatorRight]
    settings = token_settings()
    async with serving(server.entry, broken, definitions="pin", **settings) as console:
        if tenant is not None:
            rights.remove(OperatorRight.PRESETS)
        browser = await holder(*rights, console=console, tenant=tenant)
        page = await browser.open(LIST)
        assert "ready" in page.text
        assert "program" not in page.text
        assert "tab=changes" not in str(page.links)
        one = await browser.open(S1)
        assert "Tools and resources" not in one.text
        assert "Changed definitions" not in one.text
        csrf = page.form("/console/sign-out").fields["csrf"]
        accepting = {"kind": "tool", "name": "echo", "sha256": "0" * 64}
        for fields in ({"action": "reconnect"}, {"action": "accept", **accepting}):
            refused = await browser.post(S1, {"csrf": csrf, **fields})
            assert refused.status_code == 403


async def test_a_tenants_operator_sees_the_figures_of_the_tenant(server: RawServer) -> None:
    async with serving(server.entry, **token_settings()) as console:
        caller = bearer(file_token(tenant="globex", asserts_users=True))
        browser = await holder(OperatorRight.AUDIT, console=console, tenant="acme")
        body = {"tool_name": "s1:echo", "arguments": {"text": "a"}, "user": {"user_id": "u"}}
        answer = await console.service.http.post("/internal/mcp/execute", json=body, headers=caller)
        assert answer.json()["status"] == "ok"
        assert "Calls in the last hour1" in (await console.browser.open(S1)).text
        assert "Calls in the last hour0" in (await browser.open(S1)).text
