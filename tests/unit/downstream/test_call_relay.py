import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from mcp_tools_proxy.domain.client import ClientRequestFailed
from mcp_tools_proxy.downstream.call_relay import (
    LOG_MESSAGE,
    MAX_CLIENT_REQUESTS_PER_CALL,
    MAX_CLIENT_WAIT_S,
    MAX_NOTIFICATION_BYTES,
    MAX_PENDING_NOTIFICATIONS,
    PROGRESS,
    CallRelay,
)
from mcp_tools_proxy.downstream.mcp_client.in_flight import LATE_MESSAGE_S, MAX_ABANDONED, InFlight
from tests.support.fakes import FakeClient, forever
from tests.support.tables import each_row
from tests.support.virtual_time import clock

USER = ("tenant_1", "user_1")
FORM = ("elicitation/create", {"message": "Which name?"})
LINE = {"level": "info", "data": "x"}


@asynccontextmanager
async def relaying_to(client: FakeClient, timeout_s: float = 30.0) -> AsyncIterator[CallRelay]:
    """Relay notifications and requests of a running call to ``client``."""
    async with (
        CallRelay(client, USER) as relay,
        asyncio.timeout(timeout_s) as timeout,
    ):
        with relay.attached(timeout, allows_requests=True):
            yield relay


async def test_a_call_waits_at_most_ten_minutes_for_its_client() -> None:
    async def wait() -> None:
        async with relaying_to(client) as relay:
            await asyncio.sleep(10)
            await relay.on_request(*FORM)

    client, began = FakeClient(forever), clock()
    with pytest.raises(TimeoutError):
        await wait()
    assert (round(clock() - began), client.forgotten) == (10 + MAX_CLIENT_WAIT_S, 1)


async def test_the_remaining_time_continues_after_the_last_answer() -> None:
    async def slow(_method: str, _params: Mapping[str, object]) -> Mapping[str, object]:
        await asyncio.sleep(100)
        return {}

    async def request_and_wait() -> None:
        async with relaying_to(FakeClient(slow), timeout_s=30) as relay:
            await asyncio.sleep(10)
            await asyncio.gather(relay.on_request(*FORM), relay.on_request(*FORM))
            await asyncio.Event().wait()

    began = clock()
    with pytest.raises(TimeoutError):
        await request_and_wait()
    assert round(clock() - began) == 130


async def test_a_call_can_send_a_hundred_requests_to_its_client() -> None:
    client = FakeClient({"action": "accept"})
    async with relaying_to(client) as relay:
        for _ in range(MAX_CLIENT_REQUESTS_PER_CALL):
            await relay.on_request(*FORM)
        with pytest.raises(ClientRequestFailed, match="too many questions"):
            await relay.on_request(*FORM)
    assert len(client.requests) == MAX_CLIENT_REQUESTS_PER_CALL


async def test_the_first_log_lines_are_kept_if_the_queue_is_full() -> None:
    client = FakeClient()
    async with relaying_to(client) as relay:
        for number in range(MAX_PENDING_NOTIFICATIONS + 10):
            relay.on_log({**LINE, "data": number}, 10)
    assert [params["data"] for _, params in client.notes] == list(range(MAX_PENDING_NOTIFICATIONS))


async def test_a_notification_over_the_limit_is_dropped() -> None:
    client = FakeClient()
    async with relaying_to(client) as relay:
        relay.on_log(LINE, MAX_NOTIFICATION_BYTES + 1)
        relay.on_progress({"progress": 1}, MAX_NOTIFICATION_BYTES + 1)
        relay.on_log(LINE, MAX_NOTIFICATION_BYTES)
    assert client.notes == [(LOG_MESSAGE, LINE)]


async def test_progress_replaces_a_waiting_log_line() -> None:
    client = FakeClient()
    async with relaying_to(client) as relay:
        for _ in range(MAX_PENDING_NOTIFICATIONS):
            relay.on_log(LINE, 10)
        relay.on_progress({"progress": 1}, 10)
        relay.on_progress({"progress": 2}, 10)
    assert [n for n in client.notes if n[0] == PROGRESS] == [(PROGRESS, {"progress": 2})]
    assert len(client.notes) == MAX_PENDING_NOTIFICATIONS


async def test_after_the_request_messages_are_dropped() -> None:
    client = FakeClient()
    async with CallRelay(client, USER) as relay:
        relay.on_progress({"progress": 1}, 10)
        relay.on_log(LINE, 10)
        with pytest.raises(ClientRequestFailed):
            await relay.on_request(*FORM)
    assert (client.notes, client.requests) == ([], [])


async def test_the_error_of_a_request_is_raised_unchanged() -> None:
    with pytest.raises(KeyError):
        async with relaying_to(FakeClient()):
            raise KeyError


async def test_an_abandoned_request_blocks_attribution_until_it_is_answered() -> None:
    calls = InFlight()
    async with CallRelay(FakeClient(), USER) as relay:
        given_up = calls.begin(relay, "tools/call")
        calls.abandon(given_up)
        calls.end(given_up)
        calls.begin(relay, "tools/call")
        before = calls.sole_relay()
        calls.mark_answered(given_up)
        assert (before, calls.sole_relay()) == (None, relay)


async def test_progress_after_the_answer_is_dropped() -> None:
    """The call ends a moment later, in its own task; its next request receives progress again."""
    calls, client = InFlight(), FakeClient()
    async with relaying_to(client) as relay:
        for number in (1, 2):
            request_id = calls.begin(relay, "tools/call")
            progress = {"progressToken": relay.token, "progress": number}
            calls.dispatch_notification(PROGRESS, progress, 10, None)
            calls.mark_answered(request_id)
            calls.dispatch_notification(PROGRESS, {**progress, "progress": 9}, 10, None)
            calls.end(request_id)
    assert client.notes == [(PROGRESS, {"progress": 1}), (PROGRESS, {"progress": 2})]


async def test_after_too_many_abandoned_requests_attribution_stops() -> None:
    calls = InFlight()
    async with CallRelay(FakeClient(), USER) as relay:
        given_up = [calls.begin(None, "tools/call") for _ in range(MAX_ABANDONED + 1)]
        for request_id in given_up:
            calls.abandon(request_id)
            calls.end(request_id)
        for request_id in given_up:
            calls.mark_answered(request_id)
        calls.begin(relay, "tools/call")
        assert calls.sole_relay() is None


async def test_a_log_line_without_a_receiver_is_dropped() -> None:
    calls, client = InFlight(), FakeClient()
    async with relaying_to(client) as relay:
        calls.begin(relay, "tools/call")
        calls.begin(None, "tools/call")
        calls.dispatch_notification(LOG_MESSAGE, LINE, 10, calls.sole_relay())
    assert client.notes == []


@each_row("method", ["tools/list", "ping", "resources/subscribe"])
async def test_requests_of_the_gateway_do_not_block_attribution(method: str) -> None:
    calls = InFlight()
    async with relaying_to(FakeClient()) as relay:
        calls.begin(None, method)
        calls.begin(relay, "tools/call")
        assert calls.sole_relay() is relay


async def test_roots_requested_at_startup_are_not_those_of_the_first_caller() -> None:
    """Otherwise the session would use a caller's folders in place of the entry's."""
    calls = InFlight()
    async with relaying_to(FakeClient()) as relay:
        first = calls.begin(relay, "tools/call")
        found = [calls.sole_relay("roots/list"), calls.sole_relay("elicitation/create")]
        calls.end(first)
        calls.begin(relay, "tools/call")
        found.append(calls.sole_relay("roots/list"))
    assert found == [None, relay, relay]


async def test_a_call_of_another_user_blocks_attribution_shortly_after_its_answer() -> None:
    now = 0.0
    calls = InFlight(lambda: now)
    found = []
    async with relaying_to(FakeClient()) as relay:
        calls.end(calls.begin(None, "tools/list"))
        calls.end(calls.begin(relay, "tools/call"))
        begun = calls.begin(relay, "tools/call")
        found.append(calls.sole_relay())
        calls.end(calls.begin(None, "tools/call"))
        found.append(calls.sole_relay())
        now = LATE_MESSAGE_S + 0.1
        found.append(calls.sole_relay())
        calls.end(begun)
    assert found == [relay, None, relay]
