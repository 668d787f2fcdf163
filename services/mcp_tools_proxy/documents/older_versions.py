"""Older versions of documents: read from the store, and cached beside the present one."""

from mcp_tools_proxy.documents.document_cache import CachedDocument, DocumentCache
from mcp_tools_proxy.documents.document_store import DocumentStore, Key
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.errors import VersionNotKept
from mcp_tools_proxy.telemetry.tracing.spans import child_span
from mcp_tools_proxy.wire.text import quote


class OlderVersions:
    """The older versions that a store keeps, for callers that may read the present one."""

    def __init__(self, store: DocumentStore, cache: DocumentCache) -> None:
        self._store = store
        self._cache = cache
        self._changes = 0

    def changed(self) -> None:
        """Keep nothing of what is being read: its document may be removed."""
        self._changes += 1

    async def find(self, present: DocumentHead, version: str) -> CachedDocument:
        """Return an older version, whole. Raises VersionNotKept, DocumentsUnavailable.

        Who may read ``present`` was checked; an older version has no readers of its own.
        """
        key = (present.tenant_id, present.doc_id)
        if self._store.is_current and (found := self._cache.get((*key, version))):
            return found
        changes = self._changes
        with child_span("document.read"):
            reading = await self._store.read_older(key, version)
        if reading is None:
            raise _not_kept(key, version, present.version)
        if changes != self._changes:
            return CachedDocument(reading)
        return self._cache.keep_older(key, reading)


def _not_kept(key: Key, version: str, present: str) -> VersionNotKept:
    return VersionNotKept(
        f"version {quote(version)} of document {quote(key[1])} is not kept; the current version "
        f"is {present}: leave out version to read it, and check your citations again",
        details={"version": present},
    )
