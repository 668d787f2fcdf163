"""The quota of a tenant's documents, and the size of the facts that are kept in memory."""

from typing import NamedTuple

from pydantic_core import to_json

from mcp_tools_proxy.documents.document_file import InvalidDocument, dump_readers
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.quota import Quota, Usage

MAX_FACTS_BYTES = 65_536
"""Bytes of one document's facts. They are kept in memory, where a tag of 8 characters takes seven
times its bytes: 86 MB of tags took 600 MB, and as much again when the tenant searched."""

FACTS_BYTES_EACH = 1024
"""Bytes of facts for each document of the quota: what a tenant may have in all."""


class DocumentUsage(NamedTuple):
    """Stored documents: their number, their bytes, and the bytes of their facts."""

    entries: int = 0
    bytes: int = 0
    facts_bytes: int = 0

    @property
    def stored(self) -> Usage:
        """The number and the bytes."""
        return Usage(self.entries, self.bytes)


def facts_bytes(head: DocumentHead) -> int:
    """Return the bytes of a document's facts: its title, tags, readers and OCR values as JSON."""
    readers = None if head.readers is None else dump_readers(head.readers)
    return len(to_json([head.title, head.tags, readers, head.ocr]))


def check_quota(
    quota: Quota, *, others: DocumentUsage, old: DocumentUsage, new: DocumentUsage
) -> None:
    """Check a write of ``new`` in place of ``old``. Raises QuotaExceeded, InvalidDocument."""
    if new.facts_bytes > max(old.facts_bytes, MAX_FACTS_BYTES):
        raise InvalidDocument(
            f"title, tags, readers and ocr are {new.facts_bytes} bytes together, and the limit is "
            f"{MAX_FACTS_BYTES}; shorten them"
        )
    quota.check(others=others.stored, old=old.stored, new=new.stored)
    sizes = others.facts_bytes, old.facts_bytes, new.facts_bytes
    quota.check_unit("facts_bytes", quota.count * FACTS_BYTES_EACH, sizes)
