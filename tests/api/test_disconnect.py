"""Callers that disconnect, in process: their calls end at every stage and leave nothing behind."""

import asyncio
import json

import httpx
import pytest

from tests.support.asgi import Message, post_to_app
from tests.support.bounds import BOUND_S
from tests.support.service import BATCH, EXECUTE, request_of, running

WINDOW = request_of("read_chunk_window", {"doc_id": "doc_1", "anchor_chunk_id": "c"})
BATCH_OF_THREE = {"calls": [WINDOW] * 3, "user": WINDOW["user"]}


class Hanging:
    """A Retrieval Service that never answers and counts its calls."""

    def __init__(self) -> None:
        self.came = 0
        self.cancelled = 0
        self.changed = asyncio.Condition()

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        await self._note(came=1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError

    async def _note(self, *, came: int) -> None:
        async with self.changed:
            self.came += came
            self.changed.notify_all()

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(BOUND_S), self.changed:
            await self.changed.wait_for(lambda: self.came >= count)


@pytest.mark.parametrize(
    ("path", "content", "count"),
    [(EXECUTE, WINDOW, 1), (BATCH, BATCH_OF_THREE, 3)],
    ids=["execute", "batch"],
)
async def test_a_call_is_cancelled_when_its_caller_disconnects(
    path: str, content: dict[str, object], count: int
) -> None:
    retrieval = Hanging()
    messages: list[Message] = [{"type": "http.request", "body": json.dumps(content).encode()}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await retrieval.wait_for(count)
        return {"type": "http.disconnect"}

    async with running(
        retrieval_transport=httpx.MockTransport(retrieval),
        retrieval_window_url="http://retrieval/window",
        retrieval_timeout=2 * BOUND_S,  # the only cause of a cancelled call
    ) as service:
        async with asyncio.timeout(BOUND_S):
            await post_to_app(service, path, receive)
        assert (retrieval.cancelled, service.gateway.lifecycle.in_flight) == (count, 0)


async def test_a_caller_that_disconnects_during_its_body_runs_nothing() -> None:
    messages: list[Message] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b'{"tool_name"', "more_body": True},
    ]

    async def receive() -> Message:
        return messages.pop()

    async with running() as service:
        await post_to_app(service, EXECUTE, receive)
        assert "mcp_proxy_calls_total{" not in (await service.http.get("/metrics")).text


async def test_an_endless_body_is_answered_after_discarding_a_bounded_part() -> None:
    read = 0

    async def receive() -> Message:
        nonlocal read
        read += 1024 * 1024
        return {"type": "http.request", "body": b" " * 1024 * 1024, "more_body": True}

    async with running() as service:
        sent = await post_to_app(service, EXECUTE, receive)
        assert (sent[0]["status"], read <= 70 * 1024 * 1024) == (413, True)


async def test_the_rest_of_an_oversized_body_is_read_before_the_answer() -> None:
    parts = [b" " * 1024 * 1024] * 3

    async def receive() -> Message:
        body = parts.pop()
        return {"type": "http.request", "body": body, "more_body": bool(parts)}

    async with running() as service:
        sent = await post_to_app(service, EXECUTE, receive)
        assert (sent[0]["status"], parts) == (413, [])
