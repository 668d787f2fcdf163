"""Lists the servers: the state of each, its figures of the last hour, and what has changed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_tools_proxy.console.page_request import (
    PageRequest,
    PageResult,
    PageView,
    page_address,
)
from mcp_tools_proxy.console.pages.servers.server_facts import calls_of_servers, is_for_all
from mcp_tools_proxy.domain.identity import OperatorRight

PAGE_SERVERS = 50
"""400 servers on one page made 171 kB; each may have an error and a problem."""

SORTED_BY = ("total", "errors", "not_sent", "p99_ms")
"""The figures that the list is sorted by on demand, the greatest first."""

LIST_PATH = "/console/servers"

Server = Mapping[str, Any]


async def list_servers(page: PageRequest) -> PageResult:
    """List the servers with their state."""
    servers: Sequence[Server] = (await page.api.get("/internal/mcp/servers"))["servers"]
    calls = await calls_of_servers(page)
    sort = page.query("sort")
    rows = [(server, (calls or {}).get(server["server_id"], {})) for server in servers]
    sort = sort if sort in SORTED_BY else ""
    if sort:
        rows.sort(key=lambda row: row[1].get(sort) or 0, reverse=True)
    slowest = max((it.get("p99_ms") or 0 for _, it in rows), default=0)
    first = page.number("first")
    first = first - first % PAGE_SERVERS if first < len(rows) else 0
    end = first + PAGE_SERVERS
    context = {
        "rows": rows[first:end],
        "first": first,
        "total": len(rows),
        "before": page_address(LIST_PATH, {"sort": sort, "first": first - PAGE_SERVERS}),
        "after": page_address(LIST_PATH, {"sort": sort, "first": end}),
        "shows_calls": calls is not None,
        "slowest_ms": slowest,
        "sort": sort,
        "changed": await _changed(page),
    }
    return PageView(template="servers.html", context=context)


async def _changed(page: PageRequest) -> Mapping[str, int]:
    """Return how many definitions of each server are not as accepted, for who may accept them."""
    if not is_for_all(page, OperatorRight.DEFINITIONS):
        return {}
    answer = await page.api.get("/internal/mcp/definitions")
    if answer["mode"] == "open":
        return {}
    return Counter(
        it["server_id"] for it in answer["items"] if it["status"] in ("changed", "new", "unlocked")
    )
