"""The record of documents that changed in their store, whoever changed them."""

import asyncio

from mcp_tools_proxy.telemetry.recorder import Recorder

GATHER_S = 1.0
"""Seconds for which changes are gathered in one record: an import may change thousands."""

KEYS_RECORDED = 20
"""Documents that one record names; it counts them all."""


class DocumentChanges:
    """Records changes from ``begin`` on: what is there at the start has not changed.

    An operator's change over HTTP has a record of its own, which says who made it; that of the
    command line, or of another program, is known by its effect only.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._gathered: dict[tuple[str, str], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Record changes from now on."""
        self._gathered = {}

    def changed(self, key: tuple[str, str]) -> None:
        """Add a document, by tenant and id, to the next record."""
        if self._gathered is None:
            return
        self._gathered[key] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self.flush)

    def flush(self) -> None:
        """Write the record of what was gathered, if anything was."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._gathered:
            named = [
                {"tenant_id": tenant_id, "doc_id": doc_id}
                for tenant_id, doc_id in list(self._gathered)[:KEYS_RECORDED]
            ]
            fields = {"code": "OK", "count": len(self._gathered), "documents": named}
            self._gathered = {}
            self._recorder.record("info", "documents.changed", None, fields)
