"""Clients that receive notifications of changed lists."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import anyio
from mcp import Client
from mcp.types import (
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ToolListChangedNotification,
)

from tests.support.mcp_endpoint import Served
from tests.support.service import ACTIVE, eventually

KIND_OF = {
    ToolListChangedNotification: "tools",
    PromptListChangedNotification: "prompts",
    ResourceListChangedNotification: "resources",
}


class Listener:
    def __init__(self) -> None:
        self.changed: list[str] = []
        self.client: Client

    async def on_message(self, message: Any) -> None:
        if kind := KIND_OF.get(type(message)):
            self.changed.append(kind)

    async def until(self, *kinds: str) -> None:
        async def is_changed() -> bool:
            return set(kinds) <= set(self.changed)

        await eventually(is_changed)


@contextmanager
def no_late_messages() -> Iterator[None]:
    """Ignore the error of the SDK's client when a message arrives during its exit.

    Its reader then raises outside the client's context; seen with fifty clients on a busy machine.
    """
    try:
        yield
    except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass


@asynccontextmanager
async def listening(
    served: Served, path: str = "/mcp", *, mode: str = "legacy", **options: Any
) -> AsyncIterator[Listener]:
    """Connect a client that receives notifications of changes."""
    listener = Listener()
    before = served.facade.subscribers
    streams = served.facade.streams
    with no_late_messages():
        async with AsyncExitStack() as stack:
            client = served.client(path, mode=mode, message_handler=listener.on_message, **options)
            listener.client = await stack.enter_async_context(client)
            if mode == "auto":
                await stack.enter_async_context(
                    listener.client.listen(
                        tools_list_changed=True,
                        prompts_list_changed=True,
                        resources_list_changed=True,
                    )
                )

            async def is_connected() -> bool:
                return served.facade.subscribers > before and served.facade.streams > streams

            await eventually(is_connected)
            yield listener


async def switch(served: Served, preset_id: str) -> None:
    response = await served.http.put(ACTIVE, json={"preset_id": preset_id, "persist": False})
    assert response.status_code == 200, response.text
