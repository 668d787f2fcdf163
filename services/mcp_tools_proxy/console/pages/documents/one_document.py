"""One document as the pages about it show it, read by the API at each request."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_tools_proxy.console.page_request import PageRequest, page_address
from mcp_tools_proxy.domain.errors import InvalidRequest

DOCUMENTS_PATH = "/console/documents"
DOCUMENTS_REQUEST = "/internal/documents"
CONTENT_REQUEST = "/internal/documents/content"
RIGHTS_REQUEST = "/internal/documents/rights"

MAX_READS = 2
"""Whole documents that are read and parsed at once; a text of one may have 60 MB."""


def address(page_name: str, **query: object) -> str:
    """Return the address of a page of this part; what is empty is left out of its query."""
    return page_address(f"{DOCUMENTS_PATH}/{page_name}".rstrip("/"), query)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDocument:
    """A document with its whole text, and who may read it.

    ``rights_tag`` is the ETag that a change of the readers has to name. ``agent`` is the one that
    tools are run with on the pages about it.
    """

    tenant_id: str
    doc_id: str
    version: str
    title: str
    pages: Sequence[str]
    sections: Sequence[Mapping[str, Any]]
    tags: Sequence[str]
    language: str | None
    ocr: Sequence[int | None]
    readers: Mapping[str, Sequence[str]] | None
    rights_tag: str
    agent: str

    @property
    def text_chars(self) -> int:
        """How many characters all pages have."""
        return sum(map(len, self.pages))

    @property
    def key(self) -> Mapping[str, str]:
        """What names it in queries."""
        return {"tenant_id": self.tenant_id, "doc_id": self.doc_id}

    def address(self, page_name: str, **query: object) -> str:
        """Return the address of a page about it."""
        return address(page_name, **self.key, agent=self.agent, **query)

    def ocr_of(self, page: int) -> int | None:
        """Return how sure OCR was of a page, counted from 1; None for text of the file's own."""
        return self.ocr[page - 1] if self.ocr else None

    def source(self, page: int, start_char: int, end_char: int) -> Mapping[str, object]:
        """Return a place as the tools name it, so that it can be cited."""
        source: dict[str, object] = {
            "doc_id": self.doc_id,
            "version": self.version,
            "page": page,
            "start_char": start_char,
            "end_char": end_char,
        }
        ocr = self.ocr_of(page)
        return source if ocr is None else {**source, "ocr": ocr}


def named_document(page: PageRequest) -> Mapping[str, str]:
    """Return the tenant and the id that an address, or a form, names. Raises InvalidRequest."""
    tenant_id = page.tenant_id or page.query("tenant_id") or page.form.text("tenant_id")
    doc_id = page.query("doc_id") or page.form.text("doc_id")
    if not (tenant_id and doc_id):
        raise InvalidRequest("no document was specified; choose one from the list of documents")
    return {"tenant_id": tenant_id, "doc_id": doc_id}


class DocumentLoader:
    """Reads documents, few at a time: the API gives no part of one, and parsing takes its time."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MAX_READS)

    async def load(self, page: PageRequest) -> ShownDocument:
        """Return the document that a request names. Raises ApiRefused, InvalidRequest."""
        key = named_document(page)
        async with self._places:
            rights = await page.api.send("GET", RIGHTS_REQUEST, key)
            answer = await page.api.send("GET", CONTENT_REQUEST, key)
            content = await asyncio.to_thread(lambda: answer.json)
        return ShownDocument(
            **key,
            version=answer.headers["etag"].strip('"'),
            title=content["title"],
            pages=content["pages"],
            sections=content["sections"],
            tags=content["tags"],
            language=content.get("language"),
            ocr=content.get("ocr", ()),
            readers=rights.json.get("readers"),
            rights_tag=rights.headers["etag"],
            agent=page.agent(),
        )
