"""Page images: rendered in worker processes, like imports, and cached."""

import asyncio
import json
import re
import sys
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from weakref import WeakValueDictionary

from pydantic_core import from_json

from mcp_tools_proxy.documents.document_store import DocumentStore
from mcp_tools_proxy.documents.fair_places import FairPlaces, NoPlace, Refusal
from mcp_tools_proxy.documents.importers.base import one_line
from mcp_tools_proxy.documents.importers.import_process import (
    ImportUnavailable,
    feed,
    worker_process,
)
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.errors import PageImageUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.telemetry.spans import child_span
from mcp_tools_proxy.wire.text import quote

WORKER = (sys.executable, "-I", "-m", "mcp_tools_proxy.documents.render_worker")

MOST_AT_ONCE = 2
"""Pages rendered at once, at most one per tenant."""

MOST_WAITING = 24

MOST_OF_TENANT = 16
"""Pages of one tenant that can wait for its turn."""

WAIT_S = 30.0
"""Seconds that a page waits for its turn, and then for a place."""

TIMEOUT_S = 30.0
"""Seconds that a page can hold its place; its CPU limit is reached first unless it sleeps."""

SHARE_S = 5.0
"""Seconds after which a page is stopped if another tenant waits. A page takes 0.3 s; two tenants
with pages of 30 s kept others waiting until their timeout."""

_PAGE = "page"
_REASONS: Mapping[Refusal, str] = {
    Refusal.OWN_WORK: "another page of this tenant is being rendered",
    Refusal.MANY_WAIT: "too many tenants are waiting for a page",
    Refusal.WAITED_TOO_LONG: "pages of other tenants are being rendered",
    Refusal.SHARE_IS_OVER: "it took over {share_s:g} s while other tenants waited",
}

_REASON_CHARS = 200
_IMAGE = re.compile(rb"image (image/[a-z]{1,9}) (\d{1,9}) (\d{1,6}) (\d{1,6})\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageImage:
    """A rendered page."""

    media_type: str
    data: bytes
    width: int
    height: int


class NotRendered(Exception):
    """A page could not be rendered; ``reason`` is one human-readable line.

    ``is_lasting``: a retry would fail as well.
    """

    def __init__(self, reason: str, *, is_lasting: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_lasting = is_lasting


class PageRenderer:
    """Renders up to MOST_AT_ONCE pages in parallel; for one event loop."""

    def __init__(
        self,
        *,
        max_image_bytes: int,
        worker: Sequence[str] = WORKER,
        timeout_s: float = TIMEOUT_S,
        wait_s: float = WAIT_S,
        share_s: float = SHARE_S,
    ) -> None:
        self._max_image_bytes = max_image_bytes
        self._worker = worker
        self._timeout_s = timeout_s
        self._wait_s = wait_s
        self._places = FairPlaces(
            most_at_once=MOST_AT_ONCE,
            most_of_a_kind=MOST_AT_ONCE,
            most_waiting=MOST_WAITING,
            wait_s=wait_s,
            shares_s={_PAGE: share_s},
        )
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks of the tenants with rendered or waiting pages."""
        self._waiting: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<PageRenderer: {self._places.running} running, {self._places.waiting} waiting>"

    @asynccontextmanager
    async def place(self, tenant_id: str) -> AsyncIterator[None]:
        """Wait for a tenant's turn and a place, and hold both for the block. Raises NotRendered.

        The PDF is in memory during the block, which has the timeout of one page, or its share while
        another tenant waits.
        """
        try:
            async with (
                self._turn(tenant_id),
                self._places.place(tenant_id, kind=_PAGE, timeout_s=self._timeout_s),
            ):
                yield
        except NoPlace as error:
            reason = _REASONS[error.refusal].format(share_s=error.share_s)
            raise NotRendered(reason, is_lasting=False) from None
        except TimeoutError:
            reason = f"it was not rendered within {self._timeout_s:g} s"
            raise NotRendered(reason, is_lasting=False) from None

    async def render(self, pdf: bytes, page: int) -> PageImage:
        """Render a page (1-based). Raises NotRendered."""
        request = json.dumps({"page": page, "max_bytes": self._max_image_bytes}).encode() + b"\n"
        try:
            async with (
                worker_process(self._worker) as worker,
                asyncio.TaskGroup() as group,
            ):
                feeding = group.create_task(feed(worker.stdin, request, BytesIO(pdf)))
                answer = await self._receive(worker.stdout)
                feeding.cancel()
        except ImportUnavailable as error:
            raise NotRendered("no process can be started now", is_lasting=False) from error
        if isinstance(answer, NotRendered):
            raise answer
        return answer

    @asynccontextmanager
    async def _turn(self, tenant_id: str) -> AsyncIterator[None]:
        if self._waiting[tenant_id] >= MOST_OF_TENANT:
            reason = f"{MOST_OF_TENANT} other pages of this tenant wait"
            raise NotRendered(reason, is_lasting=False)
        lock = self._turns.setdefault(tenant_id, asyncio.Lock())
        self._waiting[tenant_id] += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await lock.acquire()
        except TimeoutError:
            raise NotRendered(
                "other pages of this tenant are being rendered", is_lasting=False
            ) from None
        finally:
            self._waiting[tenant_id] -= 1
            self._waiting += Counter()  # drop zero counts
        try:
            yield
        finally:
            lock.release()

    async def _receive(self, output: asyncio.StreamReader) -> PageImage | NotRendered:
        """Return the image or the error; the task group would wrap a raised one."""
        broken = NotRendered("the renderer failed", is_lasting=True)
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


CACHE_BYTES = 16 * 1024 * 1024

_Key = tuple[str, str, str, str, int]
"""Tenant, doc_id, version, tag of the original, page."""


class PageImages:
    """Page images of documents with a kept original; for one event loop."""

    def __init__(
        self, store: DocumentStore, renderer: PageRenderer, *, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._store = store
        self._renderer = renderer
        self._cache_bytes = cache_bytes
        self._images: OrderedDict[_Key, PageImage] = OrderedDict()
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<PageImages: {len(self._images)} pages, {self._bytes} bytes>"

    async def image(self, head: DocumentHead, page: int) -> PageImage:
        """Return the image of a page of a document that the caller can read.

        Raises PageImageUnavailable, and DocumentsUnavailable while the store cannot be read.
        """
        tag = await self._store.original_tag((head.tenant_id, head.doc_id), head.version)
        if tag is None:
            raise _no_original(head)
        key = (head.tenant_id, head.doc_id, head.version, tag, page)
        if (found := self._images.get(key)) is not None:
            self._images.move_to_end(key)
            return found
        try:
            async with self._renderer.place(head.tenant_id):
                rendered = await self._render(head, page)
        except NotRendered as error:
            raise _not_rendered(head, page, error) from error
        self._keep(key, rendered)
        return rendered

    async def _render(self, head: DocumentHead, page: int) -> PageImage:
        key = (head.tenant_id, head.doc_id)
        original = await self._store.read_original(key, head.version)
        if original is None:
            raise _no_original(head)
        with child_span("document.render"):
            return await self._renderer.render(original, page)

    def _keep(self, key: _Key, image: PageImage) -> None:
        replaced = self._images.pop(key, None)
        self._images[key] = image
        self._bytes += len(image.data) - (0 if replaced is None else len(replaced.data))
        while self._bytes > self._cache_bytes and len(self._images) > 1:
            _, evicted = self._images.popitem(last=False)
            self._bytes -= len(evicted.data)


def _no_original(head: DocumentHead) -> PageImageUnavailable:
    return PageImageUnavailable(
        f"no PDF is kept of document {quote(head.doc_id)}, so its pages cannot be shown: read "
        "their text with read_doc_pages. To show them, an operator sets "
        "MCP_PROXY_DOCUMENTS_KEEP_ORIGINALS and imports the PDF again",
    )


def _not_rendered(head: DocumentHead, page: int, error: NotRendered) -> PageImageUnavailable:
    refusal = PageImageUnavailable(
        f"page {page} of document {quote(head.doc_id)} cannot be shown: {error.reason}; read its "
        "text with read_doc_pages" + ("" if error.is_lasting else ", or try again later"),
    )
    refusal.retryable = not error.is_lasting
    return refusal
