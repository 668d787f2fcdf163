"""The page "Try" runs tools for other users: results, and calls of closed browsers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.asgi import Message, post_to_app
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, make_preset
from tests.support.console_browser import (
    FORM_TYPE,
    ORIGIN,
    ConsoleService,
    Html,
    running_console,
)
from tests.support.mcp_servers import raw_script
from tests.support.mcp_servers.raw_tools import Run, text_result
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.redis_server import running_redis
from tests.support.service import eventually

TRY = "/console/try"
TOOLS = ("echo", "hang", "big", "error", "counter_safe", "big_image")
MARKUP = "<script>alert(1)</script>"


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[tuple[ConsoleService, RawServer]]:
    async with running_raw(only=TOOLS) as server:
        config = Config(
            servers={"s": server.entry},
            presets=[make_preset(tools=[("s", it) for it in TOOLS])],
            more={"defaultPresetId": "work"},
        )
        async with running_console(config=config, **settings) as console:
            yield console, server


async def fields_of(console: ConsoleService, tool: str, raw: str = "{}") -> dict[str, str]:
    page = await console.browser.open(TRY, tool=f"s:{tool}", tenant_id="tenant_1", user_id="ann")
    return {**page.form(TRY).fields, "do": "run", "mode": "raw", "raw": raw}


async def run(console: ConsoleService, tool: str, raw: str = "{}") -> Html:
    response = await console.browser.post(TRY, await fields_of(console, tool, raw))
    assert response.status_code == 200
    assert len(response.text) < 60_000
    return Html(response.text)


async def test_a_run_shows_text_envelope_duration_and_budgets() -> None:
    async with serving(unlimited=False) as (console, _):
        page = await run(console, "echo", '{"text": "hello"}')
    assert "Succeeded" in page.text
    assert "Text sent to the model" in page.text
    assert '"status": "ok"' in page.text
    assert "5,999 of 6,000 calls left" in page.text
    assert "MCP_PROXY_RATE_LIMIT_TENANT_CALLS" in page.text
    assert '"elapsed_ms"' not in page.text
    assert [it for tag, it in page.tags if tag == "svg" and it.get("class") == "meter"]


async def test_tool_results_are_escaped() -> None:
    async with serving() as (console, _):
        for tool, raw in (
            ("echo", f'{{"text": "{MARKUP}"}}'),
            ("error", f'{{"message": "{MARKUP}"}}'),
        ):
            page = await run(console, tool, raw)
            assert MARKUP in page.text
            assert [tag for tag, _ in page.tags].count("script") == 2


async def test_an_error_is_explained_with_advice_on_retrying() -> None:
    async with serving() as (console, server):
        page = await run(console, "error", '{"message": "no such city"}')
        assert "TOOL_FAILED" in page.text
        assert "What to do: The tool reported an error" in page.text
        assert "Retrying the same call will not help." in page.text
        await server.stop()
        page = await run(console, "counter_safe")
        assert "SERVER_UNAVAILABLE" in page.text
        assert "Retry " in page.text


async def test_long_results_are_truncated_with_a_note() -> None:
    async with serving() as (console, _):
        page = await run(console, "big", '{"bytes": 300000}')
        assert "First 12,000 of" in page.text
        page = await run(console, "big_image", '{"bytes": 300000}')
        assert "… (300,000 characters)" in page.text


async def test_long_arguments_stay_in_the_form_and_are_omitted_from_the_stored_try() -> None:
    async with serving() as (console, _):
        raw = '{"text": "%s"}' % ("x" * 50_000)
        fields = await fields_of(console, "echo", raw)
        page = Html((await console.browser.post(TRY, fields)).text)
        assert "Succeeded" in page.text
        assert page.form(TRY).fields["raw"] == raw
        assert "arguments are too long to show" in page.text
        again = await console.browser.open(f"{TRY}?again=1")
        assert again.form(TRY).fields["tool"] == "s:echo"


async def test_a_result_is_shown_even_if_the_try_cannot_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_redis(tmp_path) as redis:

        async def echo(run: Run) -> Any:
            redis.stop()
            return text_result("done", {})

        monkeypatch.setitem(raw_script.ALL, "echo", echo)
        async with serving(state_url=redis.url) as (console, _):
            page = await run(console, "echo")
    assert "Succeeded" in page.text
    assert "The tool ran, but the run could not be added to the recent runs" in page.text


async def test_a_call_ends_with_its_browser() -> None:
    async with serving() as (console, server):
        fields = await fields_of(console, "hang")
        body = urlencode(fields).encode()
        messages: list[Message] = [{"type": "http.request", "body": body}]
        came = asyncio.Event()

        async def receive() -> Message:
            if messages:
                return messages.pop()
            await came.wait()
            return {"type": "http.disconnect"}

        async def has_come() -> bool:
            return server.script.calls["hang"] == 1

        cookies = "; ".join(f"{name}={it}" for name, it in console.browser.cookies.items())
        headers = {"cookie": cookies, "origin": ORIGIN, "content-type": FORM_TYPE}
        async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as tasks:
            task = tasks.create_task(post_to_app(console.service, TRY, receive, headers))
            await eventually(has_come)
            came.set()
            sent = await task
        assert 500 not in [it.get("status") for it in sent]
        assert console.service.gateway.lifecycle.in_flight == 0

        async def is_cancelled() -> bool:
            return server.script.cancelled_count == 1

        await eventually(is_cancelled)
