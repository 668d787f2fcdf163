import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp_tools_proxy.mcp.server.list_changes import ListKind
from mcp_tools_proxy.mcp.server.subscriptions import MAX_WAITING, ListenStream
from tests.support.bounds import BOUND_S
from tests.support.configuration import Json

ALL = frozenset(ListKind)


class Client:
    """Accepts messages after ``reads`` is set."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self.reads = asyncio.Event()

    async def send(self, message: object) -> None:
        await self.reads.wait()
        assert isinstance(message, dict)
        self.messages.append(message)

    @property
    def methods(self) -> list[str]:
        return [message["method"].removeprefix("notifications/") for message in self.messages]


@asynccontextmanager
async def running(stream: ListenStream) -> AsyncIterator[asyncio.Task[None]]:
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as tasks:
        yield tasks.create_task(stream.run({}))


async def test_only_requested_list_changes_are_sent() -> None:
    client = Client()
    client.reads.set()
    stream = ListenStream("l", client.send)
    async with running(stream):
        await stream.add_list_changes(
            frozenset({ListKind.TOOLS, ListKind.PROMPTS}),
            frozenset({ListKind.PROMPTS, ListKind.RESOURCES}),
        )
        stream.close()
    assert client.methods == ["subscriptions/acknowledged", "prompts/list_changed"]


async def test_a_closed_stream_sends_only_queued_messages() -> None:
    client = Client()
    stream = ListenStream("l", client.send)
    async with running(stream):
        await stream.add_list_changes(ALL, frozenset({ListKind.TOOLS}))
        stream.close()
        await stream.add_list_changes(ALL, frozenset({ListKind.PROMPTS}))
        client.reads.set()
    assert client.methods == ["subscriptions/acknowledged", "tools/list_changed"]


async def test_a_stream_closed_before_it_runs_ends_after_the_acknowledgement() -> None:
    client = Client()
    client.reads.set()
    stream = ListenStream("l", client.send)
    stream.close()
    async with running(stream):
        pass
    assert client.methods == ["subscriptions/acknowledged"]


async def test_a_stream_of_a_client_that_does_not_read_ends_at_the_queue_limit() -> None:
    client = Client()
    stream = ListenStream("l", client.send)
    async with running(stream):
        await stream.add_updates(frozenset(f"raw://{number}" for number in range(MAX_WAITING + 1)))
        client.reads.set()
    assert len(client.messages) == 1 + MAX_WAITING
