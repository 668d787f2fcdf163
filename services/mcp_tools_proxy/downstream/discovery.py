"""Listing one server: every page of what it offers, kept as it came, checked item by item."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mcp.types import METHOD_NOT_FOUND

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.capability import Check, Dropped, Snapshot
from mcp_tools_proxy.domain.component import JsonObject
from mcp_tools_proxy.downstream.faults import FAULTS, reason_of
from mcp_tools_proxy.downstream.items import (
    CATEGORIES,
    Category,
    Unusable,
    read_item,
)
from mcp_tools_proxy.downstream.link import Link, LinkFault, PeerError
from mcp_tools_proxy.policy.bounds import QUOTE_CHARS

MAX_PAGES = 1_000
MAX_ITEMS = 20_000
"""Of one list; a server that offers more has a fault, or means harm."""

ITEMS_AT_ONCE = 25
"""How many items are looked at before calls may go on."""

LARGE_ITEM_CHARS = 20_000
"""How long an item is that is looked at in a thread: its schema takes milliseconds to compile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """What became of one list: its usable items by key, the others, why it could not be had.

    ``checks`` has the checks of arguments, of the items that are tools.
    """

    items: Mapping[str, JsonObject]
    checks: Mapping[str, Check] = field(default_factory=dict)
    dropped: tuple[Dropped, ...] = ()
    failed: str | None = None


async def discover(link: Link, previous: Snapshot | None, *, timeout_s: float) -> Snapshot:
    """List everything that the server offers, all categories at once (P-15).

    A category that the server did not declare is not asked for. Each list takes at most
    ``timeout_s`` seconds, all its pages together. A list that fails keeps its items of
    ``previous``, and ``failed`` says why. Raises LinkFault when every list failed.
    """
    asked = [c for c in CATEGORIES if link.capabilities.get(c.capability) is not None]
    known = previous or Snapshot()
    async with asyncio.TaskGroup() as tasks:
        listing = {
            c.key: tasks.create_task(_list_category(link, c, known, timeout_s)) for c in asked
        }
    listings = {key: task.result() for key, task in listing.items()}
    failed = {key: listing.failed for key, listing in listings.items() if listing.failed}
    if failed and len(failed) == len(listings):
        raise LinkFault("; ".join(f"{key}: {reason}" for key, reason in failed.items()))
    items = {c.key: listings[c.key].items if c.key in listings else {} for c in CATEGORIES}
    return Snapshot(
        tools=items["tools"],
        prompts=items["prompts"],
        resources=items["resources"],
        templates=items["resource_templates"],
        checks={key: c for one in listings.values() for key, c in one.checks.items()},
        dropped=tuple(dict.fromkeys(item for one in listings.values() for item in one.dropped)),
        failed=failed,
    )


async def _list_category(
    link: Link, category: Category, known: Snapshot, timeout_s: float
) -> _Listing:
    try:
        async with asyncio.timeout(timeout_s):
            items = await _list_pages(link, category, timeout_s)
    except PeerError as error:
        if error.code == METHOD_NOT_FOUND:
            return _Listing(items={})
        return _as_before(known, category, reason_of(error, timeout_s=timeout_s))
    except FAULTS as fault:
        return _as_before(known, category, reason_of(fault, timeout_s=timeout_s))
    return await _sort_out(category, items)


async def _list_pages(link: Link, category: Category, timeout_s: float) -> list[object]:
    """Fetch all pages of one list. Raises LinkFault for a list without sense or end."""
    items: list[object] = []
    cursors: set[str] = set()
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        page = await link.request(category.method, params, timeout_s=timeout_s)
        listed, cursor = page.get(category.field), page.get("nextCursor")
        if not isinstance(listed, list):
            raise LinkFault(f"its answer to {category.method} has no list of {category.field}")
        items.extend(listed)
        if len(items) > MAX_ITEMS:
            raise LinkFault(f"it lists more than {MAX_ITEMS} items")
        if not isinstance(cursor, str) or not cursor:
            return items
        if cursor in cursors:
            raise LinkFault("its pages go round in circles: a cursor came twice")
        cursors.add(cursor)
        params = {"cursor": cursor}
    raise LinkFault(f"it lists more than {MAX_PAGES} pages")


async def _sort_out(category: Category, items: list[object]) -> _Listing:
    """Tell usable items from the others; of two with one key the first counts.

    Lets calls go on between the items of a long list, and while a large one is looked at.
    """
    usable: dict[str, JsonObject] = {}
    checks: dict[str, Check] = {}
    dropped: list[Dropped] = []
    for number, listed in enumerate(items, start=1):
        if number % ITEMS_AT_ONCE == 0:
            await asyncio.sleep(0)
        try:
            if len(repr(listed)) > LARGE_ITEM_CHARS:
                item = await asyncio.to_thread(read_item, category, listed)
            else:
                item = read_item(category, listed)
        except Unusable as unusable:
            dropped.append(_dropped(category, listed, number, str(unusable)))
            continue
        if item.key in usable:
            reason = "another one of the same name comes first"
            dropped.append(_dropped(category, listed, number, reason))
            continue
        usable[item.key] = cast("JsonObject", listed)
        if item.check is not None:
            checks[item.key] = item.check
    return _Listing(items=usable, checks=checks, dropped=tuple(dropped))


def _as_before(known: Snapshot, category: Category, reason: str) -> _Listing:
    dropped = tuple(item for item in known.dropped if item.kind is category.kind)
    checks = known.checks if category.kind is Kind.TOOL else {}
    items = known.by_category[category.key]
    return _Listing(items=items, checks=checks, dropped=dropped, failed=reason)


def _dropped(category: Category, listed: object, number: int, reason: str) -> Dropped:
    return Dropped(kind=category.kind, name=_shown(listed, number), reason=reason)


def _shown(item: object, number: int) -> str:
    """Name an unusable item for a log line: ASCII, cut."""
    if isinstance(item, dict):
        for field in ("name", "uri", "uriTemplate"):
            if isinstance(name := item.get(field), str) and name:
                return ascii(name[:QUOTE_CHARS])[1:-1]
    return f"item {number}"
