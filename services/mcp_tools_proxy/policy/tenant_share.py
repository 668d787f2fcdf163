"""Fair shares of a common limit: usage per tenant, and eviction of idle sessions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.fast_dataclass import dataclass


def tenant_share(limit: int) -> int:
    """Return the number of ``limit`` slots that one tenant may use: all except a quarter.

    Of two or more slots, at least one stays free for others.
    """
    return max(1, limit - max(1, limit // 4))


def has_share(size: int, *, of_tenant: int, used: int, limit: int) -> bool:
    """Return whether a tenant may use ``size`` more of ``limit``, without eviction.

    The tenant uses ``of_tenant``, all tenants together ``used``. Of three quarters, a tenant may
    use as much as it leaves free: one alone gets three eighths of the total. The rest is for later
    tenants: a 128th of the total each.
    """
    free, wanted = limit - used, of_tenant + size
    return wanted <= free - limit // 4 or (wanted <= limit // 128 and size <= free)


SessionT = TypeVar("SessionT")


@dataclass(frozen=True, slots=True)
class IdleSession(Generic[SessionT]):
    """An unused open session; it times out at ``ends_at``, on its manager's clock."""

    session: SessionT
    tenant_id: str
    ends_at: float


def select_session_to_evict(
    idle: Iterable[IdleSession[SessionT]], tenants: Mapping[str, int], newcomer: str, *, limit: int
) -> SessionT:
    """Return the session to end for one more of ``newcomer``, if ``limit`` are open.

    ``tenants`` counts all open sessions, including busy ones. Candidates are the newcomer's
    sessions and those of tenants with more, so that a tenant who opens many evicts its own: the
    longest idle session of the largest tenant first. Raises CapacityExceeded without a candidate.
    """
    own = tenants.get(newcomer, 0)
    found = [it for it in idle if it.tenant_id == newcomer or tenants[it.tenant_id] > own]
    if not found:
        raise CapacityExceeded(
            f"{limit} sessions are open and in use, which is the limit; try again later"
        )
    return max(found, key=lambda it: (tenants[it.tenant_id], -it.ends_at)).session


class TenantCounts:
    """Number of open sessions or streams of each tenant, updated as they open and close.

    Counting all of them at each opening made the 10,000th seven times as expensive as the first.
    """

    __slots__ = ("by_tenant", "total")

    def __init__(self) -> None:
        self.by_tenant: Counter[str] = Counter()
        self.total = 0

    def add(self, tenant_id: str) -> None:
        """Count one that opens."""
        self.by_tenant[tenant_id] += 1
        self.total += 1

    def remove(self, tenant_id: str) -> None:
        """Count one that closes."""
        self.total -= 1
        self.by_tenant[tenant_id] -= 1
        if not self.by_tenant[tenant_id]:
            del self.by_tenant[tenant_id]

    @contextmanager
    def counting(self, tenant_id: str) -> Iterator[None]:
        """Count one that is open for as long as this context."""
        self.add(tenant_id)
        try:
            yield
        finally:
            self.remove(tenant_id)


def check_tenant_streams(streams: TenantCounts, tenant_id: str, *, limit: int) -> None:
    """Raise CapacityExceeded if a tenant has ``limit`` open streams."""
    if streams.by_tenant[tenant_id] >= limit:
        raise CapacityExceeded(
            f"your tenant has {limit} streams open, which is the limit for one tenant; "
            "close one, or try again later"
        )
