import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import pytest

from mcp_tools_proxy.mcp.server.http import live_sessions
from tests.support.bounds import BOUND_S
from tests.support.configuration import Json, make_preset, write_json
from tests.support.mcp_endpoint import BOTH, INITIALIZE, TENANT, Served, in_front_of_two, serving
from tests.support.raw_mcp_client import lines_of
from tests.support.service import CONFIG_DIR, eventually

CHANGED = [f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")]


class SessionEvents:
    """The events of one open stream."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.last_id: str | None = None

    async def next_method(self) -> str:
        async with asyncio.timeout(BOUND_S):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last_id = value
                elif name == "data" and value:
                    return str(json.loads(value)["method"])
        raise AssertionError("the stream has ended")

    async def first_id(self) -> str:
        """Return the id that is sent without a message."""
        async with asyncio.timeout(BOUND_S):
            async for line in self._lines:
                if line.startswith("id: "):
                    self.last_id = line.removeprefix("id: ")
                    return self.last_id
        raise AssertionError("the stream has ended")


@asynccontextmanager
async def opened(
    served: Served, session_id: str, last_event_id: str | None = None
) -> AsyncIterator[SessionEvents]:
    headers = {**BOTH, **TENANT, "Mcp-Session-Id": session_id}
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    async with served.http.stream("GET", "/mcp", headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        async with aclosing(lines_of(response)) as lines:
            yield SessionEvents(lines)


async def change_tools(served: Served, *tools: str) -> None:
    """Show these tools of server ``a``, and wait until they are listed."""
    preset = make_preset(tools=[("a", tool) for tool in tools])
    write_json(CONFIG_DIR / "preset_work.json", preset)

    async def is_listed() -> bool:
        return await served.service.listed() == [f"a:{tool}" for tool in tools]

    await eventually(is_listed)


async def test_a_reopened_stream_notifies_of_missed_changes() -> None:
    async with in_front_of_two() as served:
        session_id = await served.open_session()
        async with opened(served, session_id) as events:
            last = await events.first_id()
        await change_tools(served, "alpha")
        async with opened(served, session_id, last) as events:
            assert [await events.next_method() for _ in CHANGED] == CHANGED


async def test_a_client_that_missed_nothing_is_not_notified() -> None:
    async with in_front_of_two() as served:
        session_id = await served.open_session()
        async with opened(served, session_id) as events:
            last = await events.first_id()
        async with opened(served, session_id, last) as events:
            assert await events.first_id() == last
            await change_tools(served, "alpha")
            assert await events.next_method() == CHANGED[0]
            assert events.last_id != last


async def test_a_delivered_change_is_not_repeated() -> None:
    async with in_front_of_two() as served:
        session_id = await served.open_session()
        async with opened(served, session_id) as events:
            await events.first_id()
            await change_tools(served, "alpha")
            assert await events.next_method() == CHANGED[0]
            last = events.last_id
        async with opened(served, session_id, last) as events:
            assert await events.first_id() == last


async def test_a_change_between_the_handshake_and_the_stream_is_notified() -> None:
    async with in_front_of_two() as served:
        session_id = await served.open_session()
        await change_tools(served, "alpha")
        async with opened(served, session_id) as events:
            assert await events.next_method() == CHANGED[0]


@pytest.mark.parametrize(("keys", "times"), [("", 1), ("k" * 32, 3)])
async def test_a_change_is_repeated_if_another_replica_may_apply_it_later(
    monkeypatch: pytest.MonkeyPatch, keys: str, times: int
) -> None:
    monkeypatch.setattr(live_sessions, "REPEATED_AFTER_S", (0.01, 0.02))
    async with in_front_of_two(session_keys=keys) as served:
        session_id = await served.open_session()
        async with opened(served, session_id) as events:
            await events.first_id()
            await change_tools(served, "alpha")
            notified = [await events.next_method() for _ in CHANGED * times]
            last = events.last_id
            await change_tools(served, "whoami")
            notified += [await events.next_method()]
    assert sorted(notified) == sorted(CHANGED * times + [CHANGED[0]])
    assert last != events.last_id


async def test_an_unknown_event_id_means_that_all_lists_may_have_changed() -> None:
    async with in_front_of_two() as served:
        session_id = await served.open_session()
        async with opened(served, session_id, "7") as events:
            assert [await events.next_method() for _ in CHANGED] == CHANGED


async def test_a_session_can_have_one_open_stream() -> None:
    async with serving() as served:
        session_id = await served.open_session()
        headers = {**BOTH, **TENANT, "Mcp-Session-Id": session_id}
        async with opened(served, session_id):
            second = await served.http.get("/mcp", headers=headers)
        assert (second.status_code, second.json()["error"]["message"]) == (
            409,
            "Conflict: Only one SSE stream is allowed per session",
        )


async def test_clients_that_would_take_an_event_id_for_a_message_receive_no_empty_event() -> None:
    async with serving() as served:
        body: Json = {"jsonrpc": "2.0", "id": 0, "method": "initialize"}
        older = {**INITIALIZE, "protocolVersion": "2025-06-18"}
        begun = await served.http.post(
            "/mcp", json={**body, "params": older}, headers={**BOTH, **TENANT}
        )
        async with AsyncExitStack() as stack:
            headers = {**BOTH, **TENANT, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
            response = await stack.enter_async_context(
                served.http.stream("GET", "/mcp", headers=headers)
            )
            with_body = asyncio.ensure_future(anext(response.aiter_raw()))
            ended = await served.http.delete("/mcp", headers=headers)
            assert (ended.status_code, await anext_or_end(with_body)) == (204, b"")


async def anext_or_end(pending: "asyncio.Future[bytes]") -> bytes:
    """Return the first chunk of a stream, or b"" if it ended empty."""
    try:
        async with asyncio.timeout(BOUND_S):
            return await pending
    except StopAsyncIteration:
        return b""


async def test_a_session_with_an_open_stream_is_in_use() -> None:
    idle_s = 0.05
    ping: Json = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with serving(session_idle_s=idle_s) as served, AsyncExitStack() as streams:
        status = 404
        while status == 404:  # on a busy machine, the session can end before its stream opens
            headers = {**BOTH, **TENANT, "Mcp-Session-Id": await served.open_session()}
            stream = served.http.stream("GET", "/mcp", headers=headers)
            status = (await streams.enter_async_context(stream)).status_code
        assert status == 200
        await asyncio.sleep(4 * idle_s)
        assert (await served.http.post("/mcp", json=ping, headers=headers)).status_code == 200


async def test_sessions_are_counted_while_they_hold_a_level_or_a_stream() -> None:
    async with serving() as served:
        silent, session_id = await served.open_session(), await served.open_session()
        counted = [served.facade.sessions]
        await served.set_log_level(session_id)
        counted.append(served.facade.sessions)
        async with opened(served, session_id) as events, opened(served, silent) as others:
            await events.first_id()
            await others.first_id()
            counted.append(served.facade.sessions)

        async def only_the_level_is_held() -> bool:
            return served.facade.sessions == 1

        await eventually(only_the_level_is_held)
        await served.http.delete("/mcp", headers={**TENANT, "Mcp-Session-Id": session_id})
        counted.append(served.facade.sessions)
    assert counted == [0, 1, 2, 0]
