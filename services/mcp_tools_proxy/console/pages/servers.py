"""The servers: their state, and what each offers."""

from collections.abc import Sequence

from starlette.routing import Route

from mcp_tools_proxy.console.page_endpoint import PageEndpoint, Pages
from mcp_tools_proxy.console.page_request import PageRequest, PageResult, PageView


def server_routes(pages: Pages) -> Sequence[Route]:
    """Return the routes of this part."""
    return (Route("/console/servers", PageEndpoint(pages, GET=_list)),)


async def _list(page: PageRequest) -> PageResult:
    """List the servers with their state."""
    servers = (await page.api.get("/internal/mcp/servers"))["servers"]
    return PageView(template="servers.html", context={"servers": servers})
