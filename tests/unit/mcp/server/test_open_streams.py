import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from starlette.types import Message, Send

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import Forbidden, ProxyError, Unauthenticated
from mcp_tools_proxy.domain.list_options import SERVER_NAMES
from mcp_tools_proxy.mcp.server.http.event_streams import CHECK_S, OpenStreams
from mcp_tools_proxy.mcp.server.http.http_request import HttpRequest
from tests.support.tables import each_row
from tests.support.virtual_time import BACKEND

BEGIN: Message = {"type": "http.response.start", "status": 200, "headers": []}
END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


@pytest.fixture
def anyio_backend() -> tuple[str, Mapping[str, object]]:
    return BACKEND


async def endless(send: Send) -> None:
    await send(BEGIN)
    await asyncio.Event().wait()


async def nothing() -> Message:
    return {"type": "http.disconnect"}


class Access:
    """The access check of a stream's caller; passes until ``problem`` is set."""

    problem: ProxyError | None = None

    async def __call__(self) -> None:
        if self.problem is not None:
            raise self.problem


@asynccontextmanager
async def open_streams(
    *tenants: str, check: Access | None = None
) -> AsyncIterator[tuple[OpenStreams, list[Message]]]:
    """Open a stream for each tenant, with a limit of two per tenant."""
    streams, sent = OpenStreams(max_of_tenant=2), list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(streams.run())]
        for tenant_id in tenants:
            request = HttpRequest(
                {"headers": []},
                Caller(tenant_id=tenant_id, user_id="u"),
                SERVER_NAMES,
                check or Access(),
                nothing,
                send,
            )
            serving = streams.serve(endless, request, session_tenant=tenant_id)
            running.append(tasks.create_task(serving))
        await asyncio.sleep(0)
        yield streams, sent
        for task in running:
            task.cancel()


@each_row("problem", [Forbidden("the token was revoked"), Unauthenticated("expired")])
async def test_a_stream_ends_cleanly_when_its_caller_loses_access(
    problem: ProxyError,
) -> None:
    check = Access()
    async with open_streams("tenant_1", check=check) as (streams, sent):
        await asyncio.sleep(10 * CHECK_S)
        before = len(streams)
        check.problem = problem
        await asyncio.sleep(CHECK_S + 1)
        after = len(streams)
    assert (before, after, sent) == (1, 0, [BEGIN, END])


async def test_an_ended_stream_is_a_complete_response() -> None:
    async with open_streams("tenant_1") as (streams, sent):
        streams.end()
        await asyncio.sleep(1)
        assert (sent, len(streams)) == ([BEGIN, END], 0)


async def test_streams_are_limited_per_tenant() -> None:
    async with open_streams("tenant_1", "tenant_1") as (streams, _):
        streams.check_capacity("tenant_2")
        with pytest.raises(CapacityExceeded, match="your tenant has 2 streams open"):
            streams.check_capacity("tenant_1")
