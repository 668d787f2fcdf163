"""The images of pages that were rendered last, and those that are rendered for a call."""

from collections import OrderedDict
from typing import Protocol

from mcp_tools_proxy.documents.document_store import Key
from mcp_tools_proxy.documents.page_renderer import (
    NotRendered,
    PageImage,
    PageRenderer,
)
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.errors import PageImageUnavailable
from mcp_tools_proxy.telemetry.spans import child_span
from mcp_tools_proxy.wire.text import quote

CACHE_BYTES = 16 * 1024 * 1024

_Key = tuple[str, str, str, str, int]
"""Tenant, doc_id, version, tag of the original, page."""


class Originals(Protocol):
    """What a DocumentStore has of the PDFs that are kept."""

    async def original_tag(self, key: Key, version: str) -> str | None:
        """Return a tag of the PDF that is kept of a version; None when none is kept."""
        ...

    async def read_original(self, key: Key, version: str) -> bytes | None:
        """Read the PDF that is kept of a version; None when none is kept."""
        ...


class PageImages:
    """Images of the pages of documents whose original the store keeps; for one event loop."""

    def __init__(
        self, store: Originals, renderer: PageRenderer, *, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._store = store
        self._renderer = renderer
        self._cache_bytes = cache_bytes
        self._images: OrderedDict[_Key, PageImage] = OrderedDict()
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<PageImages: {len(self._images)} pages, {self._bytes} bytes>"

    async def image(self, head: DocumentHead, page: int) -> PageImage:
        """Return a page of a document that the caller may read.

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
