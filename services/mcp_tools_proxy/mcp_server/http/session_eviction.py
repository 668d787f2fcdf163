"""What happens when there is as much as there may be: which session ends for one more."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """A session that is open and unused; ``ends_at`` is when it ends by itself."""

    tenant_id: str
    ends_at: float
    end: Callable[[], Awaitable[None]]


def giving_way(unused: Sequence[Kept], tenants: Counter[str], newcomer: str) -> Kept | None:
    """Choose the session that ends for one more of the tenant ``newcomer``; None when none may.

    ``tenants`` counts all sessions, used ones too. A tenant takes from those who have more, and
    else from itself: whoever begins many ends its own. The one unused longest goes first.
    """
    own = tenants[newcomer]
    found = [one for one in unused if one.tenant_id == newcomer or tenants[one.tenant_id] > own]
    return max(found, key=lambda one: (tenants[one.tenant_id], -one.ends_at), default=None)
