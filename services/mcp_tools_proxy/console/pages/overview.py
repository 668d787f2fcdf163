"""The first page: whether all is well, and what needs a person."""

from collections.abc import Sequence

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
    overview = await page.api.get("/internal/mcp/overview", {"tenant_id": page.tenant()})
    return PageView(template="overview.html", context={"overview": overview})
