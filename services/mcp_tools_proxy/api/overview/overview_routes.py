"""The route of the overview (contract §1)."""

from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import show_responses
from mcp_tools_proxy.api.overview.overview_handlers import OverviewHandlers
from mcp_tools_proxy.api.overview.overview_models import OverviewAnswer, OverviewQuery
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.web.fast_routes import DirectRoute


def overview_route(build: RouteBuilder, overview: OverviewHandlers) -> DirectRoute:
    """Build the route; it needs the operator right ``audit``."""
    return build.get(
        "/internal/mcp/overview",
        overview.show,
        operation_id="get_overview",
        tag=Tag.STATUS,
        summary="Show the health of this replica",
        description=(
            "Shows this replica only: the state of each dependency, the calls of the last hour, "
            "nearly exhausted budgets, and items that need attention. `calls` and `budgets` are "
            "included only if `MCP_PROXY_CONSOLE` is true. With a right for one tenant, the "
            "figures are those of the tenant, and servers are shown with their state only. "
            "Requires the operator right `audit`."
        ),
        query=OverviewQuery,
        responses=show_responses(OverviewAnswer, "The current state of this replica."),
        headers=TRACED,
        needs_token=True,
    )
