"""Holding links: a task of its own enters and leaves each, so that closing one holds nobody up."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from mcp_tools_proxy.downstream.connection import Connection
from mcp_tools_proxy.downstream.errors import FAULTS

Dialled = AbstractAsyncContextManager[Connection]
OwnInTask = Callable[[Dialled], AbstractAsyncContextManager[Connection]]
"""Holds a link while its context is open; leaving that lets the link close by itself."""


@asynccontextmanager
async def owner_tasks() -> AsyncIterator[OwnInTask]:
    """Yield what holds links; at the end all of them are closed.

    A link that breaks with a defect of ours, not with a fault, ends the whole with an error.
    """
    owners: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as tasks:

        @asynccontextmanager
        async def own(dialled: Dialled) -> AsyncIterator[Connection]:
            opened: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
            released = asyncio.Event()
            owner = tasks.create_task(_own(dialled, opened, released))
            owners.add(owner)
            owner.add_done_callback(owners.discard)
            try:
                yield await opened
            finally:
                released.set()
                if opened.cancelled():  # nobody waits for it to open any more
                    owner.cancel()

        try:
            yield own
        finally:
            if owners:  # which a task group would cancel, while a link takes the time to close
                await asyncio.wait(owners)


async def _own(
    dialled: Dialled, opened: asyncio.Future[Connection], released: asyncio.Event
) -> None:
    try:
        async with dialled as connection:
            if not opened.done():
                opened.set_result(connection)
            await released.wait()
    except FAULTS as fault:
        if not opened.done():
            opened.set_exception(fault)
    except asyncio.CancelledError:
        if released.is_set():
            raise
        raise RuntimeError("the task that holds a link was cancelled by a library") from None
