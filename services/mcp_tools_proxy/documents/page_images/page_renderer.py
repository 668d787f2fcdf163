"""Renders pages in processes of their own, as files are imported."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from weakref import WeakValueDictionary

from pydantic_core import from_json

from mcp_tools_proxy.documents.importers.base import one_line
from mcp_tools_proxy.documents.importers.import_process import (
    ImportUnavailable,
    feed,
    worker_process,
)

WORKER = (sys.executable, "-I", "-m", "mcp_tools_proxy.documents.page_images.render_worker")

MOST_AT_ONCE = 2
"""Pages that are rendered at once, one of each tenant; others wait."""

TIMEOUT_S = 30.0
"""Seconds for one page in all, the wait for its turn included."""

_REASON_CHARS = 200
_IMAGE = re.compile(rb"image (image/[a-z]{1,9}) (\d{1,9}) (\d{1,6}) (\d{1,6})\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageImage:
    """A page as an image."""

    media_type: str
    data: bytes
    width: int
    height: int


class NotRendered(Exception):
    """There is no image of a page; ``reason`` is one line, for a person.

    ``is_lasting`` is whether there will be none the next time, either.
    """

    def __init__(self, reason: str, *, is_lasting: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_lasting = is_lasting


class PageRenderer:
    """Renders pages, at most two at once; for one event loop."""

    def __init__(
        self,
        *,
        max_image_bytes: int,
        worker: Sequence[str] = WORKER,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._max_image_bytes = max_image_bytes
        self._worker = worker
        self._timeout_s = timeout_s
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._of_tenants: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """A lock stays while somebody holds it or waits for it."""

    def __repr__(self) -> str:
        return f"<PageRenderer: pages of {len(self._of_tenants)} tenants>"

    @asynccontextmanager
    async def place(self, tenant_id: str) -> AsyncIterator[None]:
        """Wait for a tenant's turn, and hold it during the block. Raises NotRendered.

        The block, in which the PDF is in memory, has to end within the time for one page.
        """
        try:
            async with asyncio.timeout(self._timeout_s), self._turn(tenant_id), self._places:
                yield
        except TimeoutError:
            reason = f"it was not done within {self._timeout_s:g} s"
            raise NotRendered(reason, is_lasting=False) from None

    async def render(self, pdf: bytes, page: int) -> PageImage:
        """Render a page (1-based). Raises NotRendered."""
        request = json.dumps({"page": page, "max_bytes": self._max_image_bytes}).encode() + b"\n"
        try:
            async with (
                worker_process(self._worker) as (_, output, sink),
                asyncio.TaskGroup() as group,
            ):
                feeding = group.create_task(feed(sink, request, BytesIO(pdf)))
                answer = await self._receive(output)
                feeding.cancel()
        except ImportUnavailable as error:
            raise NotRendered("no process can be started now", is_lasting=False) from error
        if isinstance(answer, NotRendered):
            raise answer
        return answer

    @asynccontextmanager
    async def _turn(self, tenant_id: str) -> AsyncIterator[None]:
        """Hold the turn of a tenant: one that asks for many pages does not keep out others."""
        lock = self._of_tenants.setdefault(tenant_id, asyncio.Lock())
        async with lock:
            yield

    async def _receive(self, output: asyncio.StreamReader) -> PageImage | NotRendered:
        """Return the image, or why there is none: the group of tasks would wrap what is raised."""
        broken = NotRendered("it made the renderer fail", is_lasting=True)
        try:
            line = await output.readline()
            if found := _IMAGE.fullmatch(line):
                size, width, height = map(int, found.groups()[1:])
                if size <= self._max_image_bytes:
                    data = await output.readexactly(size)
                    media_type = found[1].decode()
                    return PageImage(media_type=media_type, data=data, width=width, height=height)
            elif line.startswith(b"failed "):
                reason = one_line(str(from_json(line.removeprefix(b"failed "))))
                return NotRendered(reason[:_REASON_CHARS], is_lasting=True)
        except (ValueError, asyncio.IncompleteReadError):
            return broken
        return broken
