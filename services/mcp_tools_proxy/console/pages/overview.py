"""The first page: whether all is well, and what needs a person."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from starlette.routing import Route

from mcp_tools_proxy.console.navigation import parts_for
from mcp_tools_proxy.console.page_endpoint import PageEndpoint, Pages
from mcp_tools_proxy.console.page_request import Done, PageRequest, PageResult, PageView
from mcp_tools_proxy.domain.identity import OperatorRight


def overview_routes(pages: Pages) -> Sequence[Route]:
    """Return the routes of this part."""
    return (Route("/console", PageEndpoint(pages, GET=_show)),)


async def _show(page: PageRequest) -> PageResult:
    """Show the overview; who may not see it is led to the first part that is there for him."""
    if not page.may(OperatorRight.AUDIT):
        return Done(path=parts_for(page.operator)[0].path, message="")
    tenant = page.tenant()
    overview = await page.api.get("/internal/mcp/overview", {"tenant_id": tenant})
    context = {
        "overview": overview,
        "attention": [{**it, "path": _place_of(it)} for it in overview["attention"]],
        "dependencies": _dependencies(overview["readiness"]),
        "tenant": tenant,
        "own_tenant": page.tenant_id,
    }
    return PageView(template="overview.html", context=context)


def _place_of(entry: Mapping[str, Any]) -> str | None:
    """Return the page where somebody can do something about an entry."""
    server_id = entry.get("server_id")
    match entry["kind"]:
        case "server_failing" | "login_waiting" if server_id:
            return f"/console/servers/{quote(server_id, safe='')}"
        case "item_quarantined" | "item_changed" if server_id:
            return f"/console/servers/{quote(server_id, safe='')}?tab=changes"
        case "item_missing":
            return "/console/visibility"
        case "records_lost":
            return f"/console/calls?{urlencode({'event': 'all'})}"
        case _:
            return None


def _dependencies(readiness: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the checks of readiness by name, those that are not well first."""
    checks = readiness.get("checks") or {}
    return sorted(checks.items(), key=lambda it: (it[1].get("status") == "ok", it[0]))
