"""The budgets: what is left of those that a call would be charged to, and where each is set."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.routing import Route

from mcp_tools_proxy.console.api_client import ApiRefused, problems_of
from mcp_tools_proxy.console.page_endpoint import PageEndpoint, Pages
from mcp_tools_proxy.console.page_request import PageRequest, PageResult, PageView
from mcp_tools_proxy.ratelimit.budgets import VARIABLES

PATH = "/console/limits"
FIELDS = ("user_id", "agent", "tool", "doc_id")

MOST_TIGHT = 100
"""Budgets near their end that the API names at most."""

LOW, EMPTY = 0.2, 0.0
"""Shares of a budget from which on it is shown as nearly used up, and as used up."""


def limit_routes(pages: Pages) -> Sequence[Route]:
    """Return the routes of this part."""
    return (Route(PATH, PageEndpoint(pages, GET=_show)),)


async def _show(page: PageRequest) -> PageResult:
    """Show what is left of a tenant's budgets; of no tenant those that are nearly used up."""
    query = {"tenant_id": page.tenant(), **{name: page.query(name) for name in FIELDS}}
    query["agent"] = page.agent()
    limits, problems = await _left(page, query) if query["tenant_id"] else ([], {})
    tight = await page.api.get("/internal/mcp/overview", {"tenant_id": page.tenant_id})
    context = {
        "query": query,
        "agents": page.agents,
        "has_asked": bool(query["tenant_id"]) and not problems,
        "limits": sorted(map(_shown, limits), key=lambda it: it["share"]),
        "tight": [_shown(it) for it in tight.get("budgets", ())],
        "most_tight": MOST_TIGHT,
        "problems": problems,
    }
    return PageView(
        template="limits.html", suggests=True, context=context, status=422 if problems else 200
    )


async def _left(
    page: PageRequest, query: Mapping[str, str]
) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]:
    """Return the budgets of a call, or what is wrong with which field of it. Raises ApiRefused."""
    try:
        answer = await page.api.get("/internal/mcp/limits", query)
    except ApiRefused as error:
        problems = problems_of(error, ("tenant_id", *FIELDS))
        is_of_tool = error.status == 422 and "" in problems  # the tool cannot be called
        return [], {"tool": problems[""]} if is_of_tool else problems
    return answer["limits"], {}


def _shown(limit: Mapping[str, Any]) -> dict[str, Any]:
    """Return a budget with how it looks, and where it is set.

    The settings' budgets have names of their own; any other is a rule of limits.json.
    """
    share = limit["remaining"] / limit["limit"]
    kind = "bad" if share <= EMPTY else "warn" if share <= LOW else ""
    used = limit["limit"] - limit["remaining"]
    variable = VARIABLES.get(limit["name"])
    return {**limit, "share": share, "kind": kind, "used": used, "variable": variable}
