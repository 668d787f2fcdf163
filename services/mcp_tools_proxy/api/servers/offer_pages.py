"""Pages of what a server offers: bounded in items and bytes, however much it offers."""

import re
from collections.abc import Mapping
from hashlib import blake2b

from pydantic_core import to_json

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.gateway.server_offers import OfferedItem, OfferedItems

PAGE_ITEMS = 100
PAGE_BYTES = 1_048_576
"""A page ends before the item that would make it longer, unless that is its first."""

_CURSOR = re.compile(r"([1-9][0-9]{0,8})-([0-9a-f]{16})")


def page_of(items: OfferedItems, cursor: str | None) -> Mapping[str, object]:
    """Return a page of items as JSON. Raises InvalidRequest for a cursor of another offer."""
    begin = 0 if cursor is None else _place_of(cursor, items)
    shown: list[object] = []
    size = 0
    for place in range(begin, min(begin + PAGE_ITEMS, len(items))):
        facts = _facts(items[place])
        size += len(to_json(facts))
        if shown and size > PAGE_BYTES:
            break
        shown.append(facts)
    end = begin + len(shown)
    page: dict[str, object] = {"total": len(items), "items": shown}
    if end < len(items):
        page["next_cursor"] = f"{end}-{_digest(items[end - 1])}"
    return page


def _facts(item: OfferedItem) -> Mapping[str, object]:
    hidden_for = None if item.hidden_for is None else item.hidden_for.value
    return without_none(
        {
            "kind": item.kind.value,
            "name": item.name,
            "shown": hidden_for is None,
            "hidden_for": hidden_for,
            "problem": item.problem,
            "definition": item.definition,
        }
    )


def _place_of(cursor: str, items: OfferedItems) -> int:
    """Return where the next page begins: behind the item that the cursor was made of."""
    found = _CURSOR.fullmatch(cursor)
    place = 0 if found is None else int(found[1])
    if found is None or place > len(items) or _digest(items[place - 1]) != found[2]:
        raise InvalidRequest(
            "cursor: invalid, or the server's list has changed; leave it out to start over",
            details={"field": "cursor"},
        )
    return place


def _digest(item: OfferedItem) -> str:
    text = f"{item.kind.value}:{item.name}"
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
