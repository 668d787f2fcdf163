"""Places for imports: two with OCR, two without, and three in all."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from mcp_tools_proxy.documents.fair_places import FairPlaces, NoPlace, Refusal

MOST_AT_ONCE = 3
MOST_OF_A_KIND = 2
"""Of those with OCR, and of those without: two scans take a quarter of an hour."""

MOST_WAITING = 24
"""Tenants that wait; each has an upload on disk."""

WAIT_S = 90.0
"""Seconds that an import waits for a place: longer than two others may take meanwhile."""

SHARE_S = 60.0
OCR_SHARE_S = 300.0
"""Seconds after which an import ends while another tenant waits for its place."""

_PLAIN, _OCR = "plain", "ocr"
_REASONS: Mapping[Refusal, str] = {
    Refusal.OWN_WORK: "another import of this tenant is running; send it again",
    Refusal.MANY_WAIT: "too many tenants are waiting for an import; send it again",
    Refusal.WAITED_TOO_LONG: "imports of other tenants are running; send it again",
    Refusal.SHARE_IS_OVER: "the import took over {share_s:g} s while other tenants waited; send it "
    "again later, or cut the file into parts",
}


class ImporterBusy(Exception):
    """There is no place for an import now, or no longer; ``reason`` is one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ImportPlaces:
    """The places of one event loop."""

    def __init__(
        self, *, wait_s: float = WAIT_S, share_s: float = SHARE_S, ocr_share_s: float = OCR_SHARE_S
    ) -> None:
        self._places = FairPlaces(
            most_at_once=MOST_AT_ONCE,
            most_of_a_kind=MOST_OF_A_KIND,
            most_waiting=MOST_WAITING,
            wait_s=wait_s,
            shares_s={_PLAIN: share_s, _OCR: ocr_share_s},
        )

    def __repr__(self) -> str:
        return f"<ImportPlaces: {self._places.running} running, {self._places.waiting} waiting>"

    @property
    def running(self) -> int:
        """How many imports run."""
        return self._places.running

    @asynccontextmanager
    async def place(
        self, tenant_id: str, *, with_ocr: bool, timeout_s: float
    ) -> AsyncIterator[None]:
        """Wait for a place, and hold it during the block. Raises ImporterBusy, TimeoutError."""
        kind = _OCR if with_ocr else _PLAIN
        try:
            async with self._places.place(tenant_id, kind=kind, timeout_s=timeout_s):
                yield
        except NoPlace as error:
            reason = _REASONS[error.refusal].format(share_s=error.share_s)
            raise ImporterBusy(reason) from None
