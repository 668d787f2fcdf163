"""Shows the guides, to everyone: a person who cannot sign in needs one, too."""

from collections.abc import Sequence
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mcp_tools_proxy.console.guides import guide_of
from mcp_tools_proxy.console.page_endpoint import Pages
from mcp_tools_proxy.console.page_request import PageRequest, PageView
from mcp_tools_proxy.domain.errors import LoginsUnavailable

HELP_PATH = "/console/help"


def help_routes(pages: Pages) -> Sequence[Route]:
    """Return the route of the guides."""
    return (Route(f"{HELP_PATH}/{{name}}", _HelpPage(pages).show, methods=["GET"]),)


class _HelpPage:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def show(self, request: Request) -> Response:
        """Show one guide."""
        page: PageRequest | None = None
        with suppress(LoginsUnavailable):
            page = await self._pages.signed_in(request)
        guide = guide_of(request.path_params["name"], self._pages.base)
        view = PageView(template="no_page.html", status=404)
        if guide is not None:
            view = PageView(template="help.html", context={"title": guide.title, "guide": guide})
        return self._pages.render(
            request,
            view,
            session=None if page is None else page.session,
            operator=None if page is None else page.operator,
        )
