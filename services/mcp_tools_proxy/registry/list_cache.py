"""Lists by visibility mask, with entity tags; callers with equal views share one list."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Generic, TypeVar

ListT = TypeVar("ListT")


class ListCache(Generic[ListT]):
    """The newest lists of one kind in one form, by a mask of ``ComponentTable``."""

    def __init__(self, max_lists: int) -> None:
        self._max_lists = max_lists
        self._lists: dict[bytes, ListT] = {}

    def get(self, mask: bytes, build: Callable[[], ListT]) -> ListT:
        """Return the list of a mask; build it if missing, and evict the oldest if full."""
        found = self._lists.get(mask)
        if found is None:
            found = build()
            if len(self._lists) == self._max_lists:
                del self._lists[next(iter(self._lists))]
            self._lists[mask] = found
        return found


def etag_of(content: bytes) -> str:
    """Return a strong entity tag that depends only on the bytes (RFC 9110 §8.8.3)."""
    return f'"{blake2b(content, digest_size=16).hexdigest()}"'
