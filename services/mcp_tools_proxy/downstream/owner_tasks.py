"""Owner tasks: each connection is entered and left in a task of its own.

So a connection that takes long to close delays nothing else. And the SDK's contexts have to be left
by the task that entered them: leaving one elsewhere raises RuntimeError (seen with mcp 2.3).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from mcp_tools_proxy.downstream.connection import Connection
from mcp_tools_proxy.downstream.faults import FAULTS

Dialled = AbstractAsyncContextManager[Connection]
OpenInTask = Callable[[Dialled], AbstractAsyncContextManager[Connection]]
"""Keeps a connection open while its context is entered; leaving only starts to close it."""


@asynccontextmanager
async def owner_tasks() -> AsyncIterator[OpenInTask]:
    """Yield the function that opens connections in tasks of their own; then wait until all closed.

    A connection that fails by a defect of this program, not by a fault of FAULTS, ends the whole
    with that error.
    """
    owners: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as tasks:

        @asynccontextmanager
        async def open_in_task(dialled: Dialled) -> AsyncIterator[Connection]:
            opened: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
            released = asyncio.Event()
            owner = tasks.create_task(_own(dialled, opened, released))
            owners.add(owner)
            owner.add_done_callback(owners.discard)
            try:
                yield await opened
            finally:
                released.set()
                if opened.cancelled():  # the caller was cancelled before the connection was open
                    owner.cancel()

        try:
            yield open_in_task
        finally:
            # wait first: on an error the task group would cancel the owners in their closing
            if owners:
                await asyncio.wait(owners)


async def _own(
    dialled: Dialled, opened: asyncio.Future[Connection], released: asyncio.Event
) -> None:
    """Open a connection, hold it until ``released``, and close it, all in the present task.

    ``opened`` gets the connection, or the fault of opening. A cancellation before ``released`` is a
    library's, since ours come after it: it becomes an error.
    """
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
