"""The overview page: health, and items that need attention."""

from collections.abc import Container, Mapping, Sequence

from mcp_tools_proxy.config.json_file import steps_of
from mcp_tools_proxy.console.api_client import OVERVIEW
from mcp_tools_proxy.console.navigation import first_path, parts_for
from mcp_tools_proxy.console.page_request import (
    Done,
    PageRequest,
    PageResult,
    PageView,
    Routes,
    page_address,
)
from mcp_tools_proxy.console.pages.server_pages import LIST_PATH, server_path
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.http.api.health_routes import CheckAnswer
from mcp_tools_proxy.http.api.overview_routes import AttentionAnswer, AttentionKind
from mcp_tools_proxy.telemetry.recent_calls import OTHER_SERVERS

MAX_BUDGETS = 10
"""Budgets listed here; the limits page has all."""

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

Checks = Mapping[str, CheckAnswer]
"""Readiness checks by dependency."""


async def _show(page: PageRequest) -> PageResult:
    """Show the overview; redirect users without the audit right to their first page."""
    if not page.may(OperatorRight.AUDIT):
        return Done(path=first_path(page.operator), message="")
    tenant = page.tenant()
    overview = await page.api.read(OVERVIEW, {"tenant_id": tenant})
    checks = overview.readiness.checks
    parts = {part.path for part in parts_for(page.operator)}
    budgets = overview.budgets or ()
    context = {
        "overview": overview,
        "attention": [
            (it, _message_of(it, checks), _link_of(it, checks, parts)) for it in overview.attention
        ],
        "servers": [
            (it, _has_calls(it.server_id, checks))
            for it in (overview.calls.by_server if overview.calls else ())
        ],
        "budgets": budgets[:MAX_BUDGETS],
        "budgets_left_out": len(budgets[MAX_BUDGETS:]),
        "dependencies": _dependencies(checks),
        "tenant": tenant,
    }
    return PageView(template="overview.html", suggests=True, context=context)


def _message_of(entry: AttentionAnswer, checks: Checks) -> str:
    """Return the message of an entry; for documents, the number of invalid files from the check."""
    check = checks.get(entry.subject)
    files = None if check is None else (check.model_extra or {}).get("files_ignored")
    if entry.kind != AttentionKind.DEPENDENCY_DEGRADED or not files:
        return entry.message
    return "1 file is invalid" if files == 1 else f"{files} files are invalid"


def _link_of(entry: AttentionAnswer, checks: Checks, parts: Container[str]) -> str | None:
    """Return the page to fix or inspect an entry."""
    server_id, kinds = entry.server_id, AttentionKind
    match entry.kind:
        case kinds.SERVER_FAILING | kinds.LOGIN_WAITING if server_id:
            return server_path(server_id)
        case kinds.ITEM_QUARANTINED | kinds.ITEM_GUARDED | kinds.ITEM_CHANGED if server_id:
            return server_path(server_id, tab="changes")
        case kinds.ITEM_MISSING:
            return VISIBILITY_PAGE
        case kinds.RECORDS_LOST:
            return page_address("/console/calls", {"event": "all"})
        case kinds.FILE_PROBLEM:
            return _page_of_file(entry.file or "", steps_of(entry.path or ""), checks)
        case kinds.DEPENDENCY_DEGRADED:
            path = _PAGES_OF_CHECKS.get(entry.subject)
            return path if path in parts else None
        case _:
            return None


def _page_of_file(name: str, steps: Sequence[str], checks: Checks) -> str | None:
    """Return the page about a configuration file or its entry."""
    if name == "mcp.json":
        server_id = steps[1] if len(steps) > 1 else ""
        return server_path(server_id) if f"server:{server_id}" in checks else LIST_PATH
    if name.startswith("preset_"):
        return VISIBILITY_PAGE
    return LIMITS_PAGE if name == "limits.json" else None


def _has_calls(server_id: str | None, checks: Checks) -> bool:
    """Return whether a row can link to its calls.

    Not for calls without a server, nor for "other", which combines the servers above 256.
    """
    return server_id is not None and (server_id != OTHER_SERVERS or f"server:{server_id}" in checks)


def _dependencies(checks: Checks) -> list[tuple[str, CheckAnswer]]:
    """Return the readiness checks by name, failing ones first."""
    return sorted(checks.items(), key=lambda it: (it[1].status == "ok", it[0]))


ROUTES: Routes = {"/console": {"GET": _show}}
