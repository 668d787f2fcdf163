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
        summary="Show how this replica is, and what needs a person",
        description=(
            "Of this replica alone: the state of each dependency, the calls of the last hour, "
            "budgets near their end, and what needs a person. `calls` and `budgets` are there only "
            "where `MCP_PROXY_CONSOLE` is true, as nothing is counted otherwise. A right for one "
            "tenant shows its figures, and of the servers their states alone. Needs the right "
            "`audit`."
        ),
        query=OverviewQuery,
        responses=show_responses(OverviewAnswer, "This replica as it is now."),
        headers=TRACED,
        needs_token=True,
    )
