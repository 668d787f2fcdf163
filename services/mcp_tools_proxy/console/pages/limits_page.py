"""The limits page: remaining budgets of a call, and the settings that define them."""

from collections.abc import Mapping, Sequence

from mcp_tools_proxy.console.api_client import LIMITS, OVERVIEW, ApiRefused, problems_of
from mcp_tools_proxy.console.page_request import PageRequest, PageResult, PageView, Routes
from mcp_tools_proxy.http.api.limit_routes import LimitAnswer
from mcp_tools_proxy.http.api.overview_routes import TightBudgetAnswer
from mcp_tools_proxy.ratelimit.budget_rules import VARIABLES

PATH = "/console/limits"
FIELDS = ("user_id", "agent", "tool", "doc_id")

MOST_TIGHT = 100
"""Maximum number of nearly exhausted budgets in an API response."""

LOW, EMPTY = 0.2, 0.0
"""Remaining shares below which a budget is shown as nearly used up, or as used up."""


async def _show(page: PageRequest) -> PageResult:
    """Show a tenant's budgets; without a tenant, those that are nearly used up."""
    query = {"tenant_id": page.tenant(), **{name: page.query(name) for name in FIELDS}}
    query["agent"] = page.agent()
    limits, problems = await _left(page, query) if query["tenant_id"] else ([], {})
    overview = await page.api.read(OVERVIEW, {"tenant_id": page.tenant_id})
    context = {
        "query": query,
        "has_asked": bool(query["tenant_id"]) and not problems,
        "limits": sorted(limits, key=_share),
        "tight": overview.budgets or (),
        "variables": VARIABLES,
        "most_tight": MOST_TIGHT,
        "kind_of": _kind,
        "problems": problems,
    }
    return PageView(
        template="limits.html", suggests=True, context=context, status=422 if problems else 200
    )


async def _left(
    page: PageRequest, query: Mapping[str, str]
) -> tuple[Sequence[LimitAnswer], Mapping[str, str]]:
    """Return the budgets of a call, or errors by field. Raises ApiRefused."""
    try:
        return (await page.api.read(LIMITS, query)).limits, {}
    except ApiRefused as error:
        problems = problems_of(error, ("tenant_id", *FIELDS))
        is_of_tool = error.status == 422 and "" in problems  # the tool cannot be called
        return [], {"tool": problems[""]} if is_of_tool else problems


def _share(limit: LimitAnswer | TightBudgetAnswer) -> float:
    return limit.remaining / limit.limit


def _kind(limit: LimitAnswer | TightBudgetAnswer) -> str:
    """Return the display kind of a budget: warn, bad or ""."""
    share = _share(limit)
    return "bad" if share <= EMPTY else "warn" if share <= LOW else ""


ROUTES: Routes = {PATH: {"GET": _show}}
