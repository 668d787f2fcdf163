"""Listing of a server's items, with a check of each item, and a log of changes."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, cast

import structlog
from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import CheckArguments, Ignored, InvalidItem, Snapshot
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.domain.server import ServerStatus
from mcp_tools_proxy.downstream.connection import (
    FAULTS,
    AccessRefused,
    Connection,
    ConnectionFailure,
    Fault,
    reason_of,
)
from mcp_tools_proxy.downstream.offered_items import (
    CATEGORIES,
    Category,
    Item,
    Matcher,
    NeedsTask,
    UnusableItem,
    as_template,
    is_template,
    read_item,
)
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import HANDSHAKE_VERSIONS, METHOD_NOT_FOUND
from mcp_tools_proxy.wire.text import ascii_text

MAX_PAGES = 1_000
MAX_ITEMS = 20_000
"""Limits for one list; a server that exceeds them is broken or hostile."""

ITEMS_AT_ONCE = 25
CHECKED_AT_ONCE_S = 0.005
"""Number and CPU time of checks before other tasks can run."""

LARGE_ITEM_BYTES = 4_000
"""Larger items, and those with a pattern, are checked in a thread: compiling takes milliseconds.

20 kB of references took 200 ms.
"""

MAX_ITEM_BYTES = 1024 * 1024

UNDECLARED_S = 5.0
"""Time limit of an undeclared list."""

_TOOLS = next(it for it in CATEGORIES if it.kind is Kind.TOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """Result of one list: usable items by key, unusable ones, and the reason if it failed.

    ``checks`` holds the argument checks of tools.
    """

    items: Mapping[str, JsonObject]
    checks: Mapping[str, CheckArguments] = field(default_factory=dict)
    dropped: tuple[InvalidItem, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    need_task: frozenset[str] = frozenset()
    failed: str | None = None
    refused: AccessRefused | None = None
    retry_after_s: float | None = None


async def discover(
    connection: Connection,
    previous: Snapshot | None,
    *,
    timeout_s: float,
    include_undeclared: bool = False,
) -> Snapshot:
    """List everything that the server offers, all categories at once (P-15).

    Only declared categories are listed, and tools with ``include_undeclared``. Each list can take
    ``timeout_s`` for all of its pages, or half of that if another list has succeeded in that time.
    A failed list keeps its items of ``previous``; ``failed_lists`` has the reason. Raises
    ConnectionFailure if every list failed: AccessRefused if a token was not accepted.
    """
    known = previous or Snapshot()
    listings = await _list_all(connection, known, timeout_s, include_undeclared=include_undeclared)
    failed = {key: listing.failed for key, listing in listings.items() if listing.failed}
    if failed and len(failed) == len(listings):
        if refused := [it.refused for it in listings.values() if it.refused is not None]:
            raise refused[0]
        fault = ConnectionFailure("; ".join(f"{key}: {reason}" for key, reason in failed.items()))
        fault.retry_after_s = max(it.retry_after_s or 0 for it in listings.values()) or None
        raise fault
    unlisted = frozenset(key for key in failed if previous is None or key in previous.unlisted)
    return replace(
        _snapshot(listings, connection.instructions, known),
        failed_lists=failed,
        unlisted=unlisted,
    )


async def restore(lists: Mapping[str, list[object]], instructions: str | None) -> Snapshot:
    """Return the lists of an earlier run as a snapshot, each item checked as in ``discover``.

    The checks need the SDK, which the caller has imported.
    """
    found = {c.key: await _partition(c, lists[c.key]) for c in CATEGORIES}
    return replace(_snapshot(found, instructions, Snapshot()), is_remembered=True)


def _snapshot(
    listings: Mapping[str, _Listing], instructions: str | None, known: Snapshot
) -> Snapshot:
    items = {c.key: listings[c.key].items if c.key in listings else {} for c in CATEGORIES}
    resources, templates = _move_misplaced_templates(
        items["resources"], items["resource_templates"]
    )
    # the templates among the failed list's resources are missing: keep the previous ones
    if "resources" in listings and listings["resources"].failed:
        templates = {**known.templates, **templates}
    found = tuple(listings.values())
    return Snapshot(
        tools=items["tools"],
        prompts=items["prompts"],
        resources=resources,
        templates=templates,
        instructions=instructions or None,
        checks={key: c for one in found for key, c in one.checks.items()},
        dropped=tuple(dict.fromkeys(item for one in found for item in one.dropped)),
        ignored=tuple(dict.fromkeys(item for one in found for item in one.ignored)),
        has_template_for=Matcher(templates),
        need_task=frozenset(name for one in found for name in one.need_task),
    )


async def _list_all(
    connection: Connection, known: Snapshot, timeout_s: float, *, include_undeclared: bool
) -> Mapping[str, _Listing]:
    """Return all lists by category; one without an answer does not delay the others for long."""
    declared = [c for c in CATEGORIES if connection.capabilities.get(c.capability) is not None]
    limits = {c.key: asyncio.timeout(timeout_s) for c in declared}
    undeclared = None
    async with asyncio.TaskGroup() as group:
        tasks = {
            c.key: group.create_task(_list_category(connection, c, known, limits[c.key]))
            for c in declared
        }
        if _TOOLS not in declared and (include_undeclared or known.tools):
            undeclared = group.create_task(_list_undeclared(connection, timeout_s))
        if tasks:
            done, _ = await asyncio.wait(tasks.values(), timeout=timeout_s / 2)
            if any(task.result().failed is None for task in done):
                _end(limits.values())
    listings = {key: task.result() for key, task in tasks.items()}
    if undeclared is not None and undeclared.result().items:
        listings[_TOOLS.key] = undeclared.result()
    return listings


def _end(limits: Iterable[asyncio.Timeout]) -> None:
    for limit in limits:
        with suppress(RuntimeError):  # it is finished
            limit.reschedule(asyncio.get_running_loop().time())


async def _list_undeclared(connection: Connection, timeout_s: float) -> _Listing:
    """List the tools of a server that does not declare tools: some forget to.

    A failure means none.
    """
    limit = asyncio.timeout(min(timeout_s / 2, UNDECLARED_S))
    listing = await _list_category(connection, _TOOLS, Snapshot(), limit)
    return listing if listing.failed is None else _Listing(items={})


def _move_misplaced_templates(
    resources: Mapping[str, JsonObject], templates: Mapping[str, JsonObject]
) -> tuple[Mapping[str, JsonObject], Mapping[str, JsonObject]]:
    """Return resources and templates; resources whose URI has variables become templates."""
    misplaced = {key: as_template(it) for key, it in resources.items() if is_template(it)}
    if not misplaced:
        return resources, templates
    kept = {key: item for key, item in resources.items() if key not in misplaced}
    return kept, {**misplaced, **templates}


async def _list_category(
    connection: Connection, category: Category, known: Snapshot, limit: asyncio.Timeout
) -> _Listing:
    """List one category; ``limit`` is for the answers, and another task can end it."""
    began = asyncio.get_running_loop().time()

    def failed(fault: Fault) -> _Listing:
        seconds = round((limit.when() or began) - began, 1)
        return _keep_previous(known, category, reason_of(fault, timeout_s=seconds))

    try:
        async with limit:
            items = await _list_pages(connection, category, (limit.when() or began) - began)
    except JsonRpcError as error:
        return _Listing(items={}) if error.code == METHOD_NOT_FOUND else failed(error)
    except AccessRefused as fault:
        return replace(failed(fault), refused=without_frames(fault))
    except FAULTS as fault:
        return replace(failed(fault), retry_after_s=getattr(fault, "retry_after_s", None))
    return await _partition(category, items)


async def _list_pages(connection: Connection, category: Category, timeout_s: float) -> list[object]:
    """Fetch all pages of one list. Raises ConnectionFailure for a malformed or too long list."""
    items: list[object] = []
    cursors: set[str] = set()
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        page = await connection.request(category.method, params, timeout_s=timeout_s)
        listed, cursor = page.get(category.field), page.get("nextCursor")
        if not isinstance(listed, list):
            raise ConnectionFailure(
                f"its answer to {category.method} has no list of {category.field}"
            )
        items.extend(listed)
        if len(items) > MAX_ITEMS:
            raise ConnectionFailure(f"its list has more than {MAX_ITEMS} items")
        if not isinstance(cursor, str) or (not cursor and connection.era in HANDSHAKE_VERSIONS):
            return items
        if cursor in cursors:
            return items  # the pages repeat, so the list is complete
        cursors.add(cursor)
        params = {"cursor": cursor}
    raise ConnectionFailure(f"its list has more than {MAX_PAGES} pages")


async def _partition(category: Category, items: list[object]) -> _Listing:
    """Separate usable items from the others; the first of two items with one key counts.

    Yields to other tasks between items of a long list, and while a large item is checked.
    """
    found = _Found(category)
    began = time.thread_time()
    for number, listed in enumerate(items, start=1):
        if number % ITEMS_AT_ONCE == 0 or time.thread_time() - began > CHECKED_AT_ONCE_S:
            await asyncio.sleep(0)
            began = time.thread_time()
        try:
            if _is_slow(listed):
                found.add(listed, number, await asyncio.to_thread(read_item, category, listed))
            else:
                found.add(listed, number, read_item(category, listed))
        except UnusableItem as unusable:
            found.drop(listed, number, unusable)
    return found.listing()


def _is_slow(listed: object) -> bool:
    """Return whether the check of an item can take milliseconds. Raises UnusableItem."""
    try:
        encoded = to_json(listed)
    except ValueError:
        return False  # it is refused at once
    if len(encoded) > MAX_ITEM_BYTES:
        raise UnusableItem(f"it is {len(encoded)} bytes, the limit is {MAX_ITEM_BYTES}")
    return len(encoded) > LARGE_ITEM_BYTES or b'"pattern' in encoded


class _Found:
    def __init__(self, category: Category) -> None:
        self._category = category
        self._items: dict[str, JsonObject] = {}
        self._checks: dict[str, CheckArguments] = {}
        self._dropped: list[InvalidItem] = []
        self._ignored: list[Ignored] = []
        self._need_task: set[str] = set()

    def add(self, listed: object, number: int, item: Item) -> None:
        if item.key in self._items:
            raise UnusableItem("an earlier item has the same name")
        self._items[item.key] = item.listed
        if item.check is not None:
            self._checks[item.key] = item.check
        if item.ignored:
            name = _log_name(listed, number)
            self._ignored.append(Ignored(kind=self._category.kind, name=name, fields=item.ignored))

    def drop(self, listed: object, number: int, unusable: UnusableItem) -> None:
        needs_task = isinstance(unusable, NeedsTask)
        if needs_task:
            self._need_task.add(str(cast("JsonObject", listed)["name"]))
        self._dropped.append(
            InvalidItem(
                kind=self._category.kind,
                name=_log_name(listed, number),
                reason=str(unusable),
                needs_task=needs_task,
            )
        )

    def listing(self) -> _Listing:
        return _Listing(
            items=self._items,
            checks=self._checks,
            dropped=tuple(self._dropped),
            ignored=tuple(self._ignored),
            need_task=frozenset(self._need_task),
        )


def _keep_previous(known: Snapshot, category: Category, reason: str) -> _Listing:
    is_tools = category.kind is Kind.TOOL
    return _Listing(
        items=known.by_category[category.key],
        checks=known.checks if is_tools else {},
        dropped=tuple(item for item in known.dropped if item.kind is category.kind),
        ignored=tuple(item for item in known.ignored if item.kind is category.kind),
        need_task=known.need_task if is_tools else frozenset(),
        failed=reason,
    )


def _log_name(item: object, number: int) -> str:
    if isinstance(item, dict):
        for field in ("name", "uri", "uriTemplate"):
            if isinstance(name := item.get(field), str) and name:
                return ascii_text(name)
    return f"item {number}"


MAX_DROPPED_LINES = 20
"""Maximum log lines for one snapshot and event."""

log = structlog.get_logger()


def counts_of(snapshot: Snapshot) -> Mapping[str, int]:
    """Count the items that the server offers, by category."""
    return {category: len(items) for category, items in snapshot.by_category.items()}


def log_connected(status: ServerStatus) -> None:
    """Log that a server is connected and discovered."""
    log.info(
        "server.connected",
        server_id=status.server_id,
        era=status.era,
        transport=status.transport and status.transport.value,
        connect_ms=round((status.connect_s or 0.0) * 1000),
        **status.counts,
    )


def log_change(server_id: str, known: Snapshot | None, snapshot: Snapshot) -> None:
    """Log the new counts, and each item that became unusable or lost fields since ``known``."""
    if known is not None:
        log.info("server.changed", server_id=server_id, **counts_of(snapshot))
    _log_new_items(
        server_id, "server.items_dropped", snapshot.dropped, known.dropped if known else ()
    )
    _log_new_items(
        server_id, "server.fields_ignored", snapshot.ignored, known.ignored if known else ()
    )


def _log_new_items(
    server_id: str,
    summary_event: str,
    items: Sequence[InvalidItem | Ignored],
    known: Sequence[InvalidItem | Ignored],
) -> None:
    before = set(known)
    new = [item for item in items if item not in before]
    for item in new[:MAX_DROPPED_LINES]:
        _log_item(server_id, item)
    if len(new) > MAX_DROPPED_LINES:
        log.warning(summary_event, server_id=server_id, more=len(new) - MAX_DROPPED_LINES)


def _log_item(server_id: str, item: InvalidItem | Ignored) -> None:
    fields = {"server_id": server_id, "kind": item.kind.value, "name": item.name}
    match item:
        case InvalidItem(needs_task=True):
            log.info("server.item_dropped", **fields, reason=item.reason)
        case InvalidItem():
            log.warning("server.item_dropped", **fields, reason=item.reason)
        case Ignored():
            log.warning("server.fields_ignored", **fields, fields=list(item.fields))
