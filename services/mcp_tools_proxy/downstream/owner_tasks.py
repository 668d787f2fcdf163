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
    holders: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as tasks:

        @asynccontextmanager
        async def hold(dialled: Dialled) -> AsyncIterator[Connection]:
            opened: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
            let_go = asyncio.Event()
            holder = tasks.create_task(_hold(dialled, opened, let_go))
            holders.add(holder)
            holder.add_done_callback(holders.discard)
            try:
                yield await opened
            finally:
                let_go.set()
                if opened.cancelled():  # nobody waits for it to open any more
                    holder.cancel()

        try:
            yield hold
        finally:
            if holders:  # which a task group would cancel, while a link takes the time to close
                await asyncio.wait(holders)


async def _hold(
    dialled: Dialled, opened: asyncio.Future[Connection], let_go: asyncio.Event
) -> None:
    try:
        async with dialled as link:
            if not opened.done():
                opened.set_result(link)
            await let_go.wait()
    except FAULTS as fault:
        if not opened.done():
            opened.set_exception(fault)
    except asyncio.CancelledError:
        if let_go.is_set():
            raise
        raise RuntimeError("the task that holds a link was cancelled by a library") from None
