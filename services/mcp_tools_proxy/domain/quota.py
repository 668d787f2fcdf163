"""Storage quotas of a tenant: tokens, documents and logins."""

from typing import NamedTuple

from mcp_tools_proxy.domain.errors import QuotaExceeded
from mcp_tools_proxy.domain.fast_dataclass import dataclass


class Usage(NamedTuple):
    """Number of stored entries, and their bytes."""

    entries: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The storage limit of one tenant for one kind (``tokens``, …); 0 means unlimited.

    Stores check it under their write lock, so that parallel requests cannot exceed it together.
    """

    kind: str
    count: int
    bytes: int

    def check(self, *, others: Usage, old: Usage, new: Usage) -> None:
        """Check a write of ``new`` in place of ``old``, beside the tenant's ``others``.

        Writes that add nothing are accepted, so that a tenant over its quota can shrink entries.
        Raises QuotaExceeded.
        """
        self.check_unit("count", self.count, (others.entries, old.entries, new.entries))
        self.check_unit("bytes", self.bytes, (others.bytes, old.bytes, new.bytes))

    def check_unit(self, unit: str, limit: int, sizes: tuple[int, int, int]) -> None:
        """Check one number of others, old and new. Raises QuotaExceeded."""
        others, old, new = sizes
        if limit == 0 or new <= old or others + new <= limit:
            return
        noun = self.kind if unit == "count" else f"{unit.replace('_', ' ')} of {self.kind}"
        raise QuotaExceeded(
            f"the tenant would have {others + new} {noun}, over its limit of {limit}; remove "
            f"some {self.kind}, or ask an operator for a higher limit",
            details={"quota": self.kind, "unit": unit, "limit": limit, "used": others + old},
        )
