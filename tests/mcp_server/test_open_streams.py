"""Open streams are checked again, and end as a whole answer does."""

import asyncio

from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.domain.errors import ProxyError, Unauthenticated
from mcp_tools_proxy.mcp_server.http.open_streams import OpenStreams
from tests.support.bounds import BOUND_S

BEGIN: Message = {"type": "http.response.start", "status": 200, "headers": []}
END: Message = {"type": "http.response.body", "body": b"", "more_body": False}
REVOKED = Unauthenticated("the token is not good any more")


async def endless(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send(BEGIN)
    await asyncio.Event().wait()


async def nothing() -> Message:
    return {"type": "http.disconnect"}


async def sent_by(streams: OpenStreams, problem: ProxyError | None) -> list[Message]:
    """Serve an endless stream whose caller is checked again, and give what was sent."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def check() -> None:
        if problem is not None:
            raise problem

    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as tasks:
        checking = tasks.create_task(streams.run())
        serving = tasks.create_task(streams.serve(endless, {}, nothing, send, check=check))
        if problem is None:
            while not len(streams):  # noqa: ASYNC110 - it has just been started
                await asyncio.sleep(0)
            streams.end()
        await serving
        checking.cancel()
    return sent


async def test_a_stream_ends_whose_caller_may_have_it_no_longer() -> None:
    streams = OpenStreams(max_of_tenant=1, check_s=0.001)
    assert (await sent_by(streams, REVOKED), len(streams)) == ([BEGIN, END], 0)


async def test_a_stream_that_is_ended_ends_as_an_answer_does() -> None:
    streams = OpenStreams(max_of_tenant=1)
    assert (await sent_by(streams, None))[-1] == END
