"""The first page: whether all is well, and what needs a person."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from starlette.routing import Route

from mcp_tools_proxy.console.navigation import parts_for
from mcp_tools_proxy.console.page_endpoint import PageEndpoint, Pages
from mcp_tools_proxy.console.page_request import (
    Done,
    PageRequest,
    PageResult,
    PageView,
    page_address,
)
from mcp_tools_proxy.console.pages.server_pages import LIST_PATH, server_path
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.telemetry.recent_calls import OTHER_SERVERS

MAX_BUDGETS = 10
"""Budgets that are listed here; the page of the limits has the others."""

VISIBILITY_PAGE, DOCUMENTS_PAGE, TOKENS_PAGE, LIMITS_PAGE = (
    "/console/visibility",
    "/console/documents",
    "/console/tokens",
    "/console/limits",
)

_PAGES_OF_CHECKS = {
    "documents": DOCUMENTS_PAGE,
    "tokens": TOKENS_PAGE,
    "limit_store": LIMITS_PAGE,
}

Entry = Mapping[str, Any]
Checks = Mapping[str, Mapping[str, Any]]
"""What readiness says of each dependency."""


def overview_routes(pages: Pages) -> Sequence[Route]:
    """Return the routes of this part."""
    return (Route("/console", PageEndpoint(pages, GET=_show)),)


async def _show(page: PageRequest) -> PageResult:
    """Show the overview; redirect users without the audit right to the first part for them."""
    if not page.may(OperatorRight.AUDIT):
        return Done(path=parts_for(page.operator)[0].path, message="")
    tenant = page.tenant()
    overview = await page.api.get("/internal/mcp/overview", {"tenant_id": tenant})
    checks = overview["readiness"].get("checks") or {}
    parts = {part.path for part in parts_for(page.operator)}
    budgets = overview.get("budgets", ())
    context = {
        "overview": overview,
        "attention": [
            {**it, "message": _message_of(it, checks), "link": _link_of(it, checks, parts)}
            for it in overview["attention"]
        ],
        "servers": [
            {**it, "has_calls": _has_calls(it.get("server_id"), checks)}
            for it in overview.get("calls", {}).get("by_server", ())
        ],
        "budgets": budgets[:MAX_BUDGETS],
        "budgets_left_out": len(budgets[MAX_BUDGETS:]),
        "dependencies": _dependencies(checks),
        "tenant": tenant,
        "own_tenant": page.tenant_id,
    }
    return PageView(template="overview.html", suggests=True, context=context)


def _message_of(entry: Entry, checks: Checks) -> str:
    """Return what is wrong; of documents how many files, which the API has in the check alone."""
    message: str = entry["message"]
    files = checks.get(entry["subject"], {}).get("files_ignored")
    if entry["kind"] != "dependency_degraded" or not files:
        return message
    return "1 file is invalid" if files == 1 else f"{files} files are invalid"


def _link_of(entry: Entry, checks: Checks, parts: Container[str]) -> str | None:
    """Return the page where somebody can do something about an entry, or at least see more."""
    server_id = entry.get("server_id")
    match entry["kind"]:
        case "server_failing" | "login_waiting" if server_id:
            return server_path(server_id)
        case "item_quarantined" | "item_guarded" | "item_changed" if server_id:
            return server_path(server_id, tab="changes")
        case "item_missing":
            return VISIBILITY_PAGE
        case "records_lost":
            return page_address("/console/calls", {"event": "all"})
        case "file_problem":
            return _page_of_file(entry["file"], entry.get("path", ""), checks)
        case "dependency_degraded":
            path = _PAGES_OF_CHECKS.get(entry["subject"])
            return path if path in parts else None
        case _:
            return None


def _page_of_file(name: str, place: str, checks: Checks) -> str | None:
    """Return the page that shows what a file of the configuration sets up."""
    if name == "mcp.json":
        server_id = place.removeprefix("$.mcpServers.").partition(".")[0]
        return server_path(server_id) if f"server:{server_id}" in checks else LIST_PATH
    if name.startswith("preset_"):
        return VISIBILITY_PAGE
    return LIMITS_PAGE if name == "limits.json" else None


def _has_calls(server_id: str | None, checks: Checks) -> bool:
    """Return whether the calls of a row can be looked for.

    They cannot for calls of no server, nor for "other", which the API calls servers beyond 256.
    """
    return server_id is not None and (server_id != OTHER_SERVERS or f"server:{server_id}" in checks)


def _dependencies(checks: Checks) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the checks of readiness by name, those that are not well first."""
    return sorted(checks.items(), key=lambda it: (it[1].get("status") == "ok", it[0]))
