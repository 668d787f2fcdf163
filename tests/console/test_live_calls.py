"""The live view of calls: its events, exclusions, and end."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mcp_tools_proxy.auth.token_store import add_token, remove_entry
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.console_browser import ConsoleService, Html, running_console
from tests.support.live_view import live_view
from tests.support.service import EXECUTE, eventually, request_of

CALLS = "/console/calls"
STREAM = "/console/calls/stream"
MARKUP = '<img src=x onerror="alert(1)">\revent: end\r\r'


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console() as started:
        yield started


async def call(console: ConsoleService, tool: str = "read_doc_metadata", **more: object) -> None:
    body = request_of(tool, {"doc_id": "doc_1"}, **more)  # type: ignore[arg-type]
    await console.service.http.post(EXECUTE, json=body)


async def test_the_page_opens_the_stream_with_its_filter(console: ConsoleService) -> None:
    page = await console.browser.open(CALLS, live="1", code="OK", tenant_id="a&b")
    (connect,) = [it["sse-connect"] for _, it in page.tags if "sse-connect" in it]
    assert connect == f"{STREAM}?tenant_id=a%26b&code=OK"
    assert "The live view requires JavaScript" in page.text
    assert "since" not in page.form(CALLS).fields


async def test_each_finished_call_is_a_row(console: ConsoleService) -> None:
    async with live_view(console.service, console.browser, STREAM) as view:
        await view.until("began")
        assert (view.status, view.headers["content-type"]) == (200, "text/event-stream")
        assert view.headers["cache-control"] == "no-store, no-transform"
        await call(console, trace_id="t 1")
        await console.browser.open(CALLS)  # leaves its own record, which is not a call
        await call(console, "nothing")
        first, second = await view.until("record", 2)
    assert "read_doc_metadata OK" in Html(first).text
    assert "nothing TOOL_NOT_FOUND" in Html(second).text
    assert Html(first).links == [f"{CALLS}/trace?trace_id=t_1"]
    (link,) = Html(second).links
    assert "TOOL_NOT_FOUND" in (await console.browser.open(link)).text


async def test_the_filters_of_past_calls_apply(console: ConsoleService) -> None:
    query = "code=failed&tenant_id=tenant_2"
    async with live_view(console.service, console.browser, STREAM, query) as view:
        await view.until("began")
        await call(console, tenant_id="tenant_1")
        await call(console, "not of the tenant", tenant_id="tenant_1")
        await call(console, "nothing", tenant_id="tenant_2")
        (row,) = await view.until("record")
    assert "nothing TOOL_NOT_FOUND tenant_2" in Html(row).text
    async with live_view(console.service, console.browser, STREAM, "event=all") as view:
        await view.until("began")
        await console.browser.open(CALLS)
        rows = await view.until("record")
    assert "Operator request" in Html("".join(rows)).text


async def test_values_from_callers_are_text_and_cannot_forge_events(
    console: ConsoleService,
) -> None:
    async with live_view(console.service, console.browser, STREAM) as view:
        await view.until("began")
        await call(console, MARKUP)
        (row,) = await view.until("record")
    assert {tag for tag, _ in Html(row).tags}.isdisjoint({"img", "script"})
    assert [name for name, _ in view.events] == ["began", "record"]


async def test_leaving_the_page_ends_the_api_stream(console: ConsoleService) -> None:
    trail = console.service.gateway.audit
    async with live_view(console.service, console.browser, STREAM) as view:
        await view.until("began")
        assert trail.followers == 1
    assert trail.followers == 0


async def test_signing_out_ends_the_stream_with_a_message(console: ConsoleService) -> None:
    async with live_view(console.service, console.browser, STREAM) as view:
        await view.until("began")
        await console.browser.press("/console/sign-out", on=CALLS)
        await view.until_over()
    (end,) = view.of("end")
    assert "your session has ended" in Html(end).text
    assert Html(end).links == ["/console/sign-in"]


async def test_revoking_the_token_ends_the_stream_and_other_tenants_stay_hidden(
    tmp_path: Path,
) -> None:
    tokens = tmp_path / "tokens.jsonl"
    rights = frozenset({OperatorRight.AUDIT})
    token, entry = add_token(tokens, Principal(tenant_id="tenant_1", rights=rights))
    caller, _ = add_token(tokens, Principal(tenant_id="tenant_2", user_id="eve"))
    async with running_console(auth_mode="token", tokens_file=str(tokens)) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        async with live_view(console.service, browser, STREAM, "tenant_id=tenant_2") as view:
            await view.until("began")
            await console.service.http.post(
                EXECUTE,
                json={"tool_name": "nothing"},
                headers={"authorization": f"Bearer {caller}"},
            )
            remove_entry(tokens, entry.id)
            await view.until_over()
        assert [name for name, _ in view.events] == ["began", "end"]


async def test_an_api_refusal_is_shown_on_the_page(
    console: ConsoleService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tools_proxy.http.api.audit_routes.MAX_STREAMS", 1)
    async with AsyncExitStack() as stack:
        first = live_view(console.service, console.browser, STREAM)
        await (await stack.enter_async_context(first)).until("began")
        second = live_view(console.service, console.browser, STREAM)
        view = await stack.enter_async_context(second)
        await view.until_over()
    (end,) = view.of("end")
    assert "NO_ROOM" in Html(end).text
    assert "close one, or try again later" in Html(end).text


async def test_lost_records_are_reported_in_order(
    console: ConsoleService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tools_proxy.telemetry.audit.audit_trail.MAX_WAITING", 1)
    async with live_view(console.service, console.browser, STREAM) as view:
        await view.until("began")
        calls = [{"tool_name": "nothing"}] * 8
        await console.service.http.post(
            f"{EXECUTE}/batch", json={"calls": calls, "user": request_of("x")["user"]}
        )

        async def is_sent() -> bool:
            return "not shown:" in view.text

        await eventually(is_sent)
        assert "The filter would have hidden some of them" in view.text


async def test_without_a_filter_the_note_on_lost_records_does_not_mention_it(
    console: ConsoleService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tools_proxy.telemetry.audit.audit_trail.MAX_WAITING", 1)
    async with live_view(console.service, console.browser, STREAM, "event=all") as view:
        await view.until("began")
        calls = [{"tool_name": "nothing"}] * 8
        await console.service.http.post(
            f"{EXECUTE}/batch", json={"calls": calls, "user": request_of("x")["user"]}
        )

        async def is_sent() -> bool:
            return "not shown:" in view.text

        await eventually(is_sent)
        assert "The filter would have hidden some of them" not in view.text


async def test_the_stream_needs_a_session(console: ConsoleService) -> None:
    browser = console.new_browser()
    response = await browser.get(STREAM, follow=False)
    assert (response.status_code, response.headers["location"]) == (303, "/console/sign-in")
