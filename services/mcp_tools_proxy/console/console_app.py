"""The console as a whole: its routes, and what signs in where no token can."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mcp_tools_proxy.console.page_endpoint import PageEndpoint, Pages
from mcp_tools_proxy.console.page_request import PageRequest, PageResult, PageView
from mcp_tools_proxy.console.pages.access_pages import visibility_routes
from mcp_tools_proxy.console.pages.call_pages import call_routes
from mcp_tools_proxy.console.pages.document_pages import (
    DOCUMENTS_PATH,
    DocumentLoader,
    ManagePage,
    or_list,
    show_list,
    show_upload,
    upload,
)
from mcp_tools_proxy.console.pages.document_reading import ReadingPage, show_picture
from mcp_tools_proxy.console.pages.document_search import QuotationPage, SearchPage
from mcp_tools_proxy.console.pages.help_pages import help_routes
from mcp_tools_proxy.console.pages.limits_page import limit_routes
from mcp_tools_proxy.console.pages.overview_page import overview_routes
from mcp_tools_proxy.console.pages.server_pages import server_routes
from mcp_tools_proxy.console.pages.token_pages import token_page_routes
from mcp_tools_proxy.console.pages.try_page import try_routes
from mcp_tools_proxy.console.sign_in import SIGN_OUT_PATH, ConsoleSignIn
from mcp_tools_proxy.console.templates import Assets
from mcp_tools_proxy.web.request_refusals import CONSOLE_PATH, CONSOLE_UPLOAD


def document_page_routes(pages: Pages) -> Sequence[Route]:
    """Return the routes of this part."""
    loader = DocumentLoader()
    reading, search = ReadingPage(loader), SearchPage(loader)
    quotation, manage = QuotationPage(loader), ManagePage(loader)
    return (
        Route(DOCUMENTS_PATH, PageEndpoint(pages, GET=show_list)),
        Route(f"{DOCUMENTS_PATH}/read", PageEndpoint(pages, GET=or_list(reading.show))),
        Route(f"{DOCUMENTS_PATH}/picture", PageEndpoint(pages, GET=show_picture)),
        Route(
            f"{DOCUMENTS_PATH}/search",
            PageEndpoint(pages, GET=or_list(search.show, needs_document=False)),
        ),
        Route(
            f"{DOCUMENTS_PATH}/verify",
            PageEndpoint(
                pages,
                GET=or_list(quotation.show, needs_document=False),
                POST=quotation.verify,
            ),
        ),
        Route(
            f"{DOCUMENTS_PATH}/manage",
            PageEndpoint(pages, GET=or_list(manage.show), POST=manage.change),
        ),
        Route(CONSOLE_UPLOAD[1], PageEndpoint(pages, has_file=True, GET=show_upload, POST=upload)),
    )


BuildRoutes = Callable[[Pages], Sequence[Route]]

PARTS: Sequence[BuildRoutes] = (
    overview_routes,
    server_routes,
    visibility_routes,
    try_routes,
    call_routes,
    limit_routes,
    document_page_routes,
    token_page_routes,
    help_routes,
)
"""The parts of the console, each with its routes."""


class Console:
    """Every page; ``close`` closes the store of the sessions."""

    def __init__(
        self,
        pages: Pages,
        sign_in: ConsoleSignIn,
        assets: Assets,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._pages = pages
        self._sign_in = sign_in
        self._assets = assets
        self._close = close

    def open_address(self, host: str, port: int) -> str | None:
        """Return the one-time address of a gateway that listens now; None if none is needed."""
        return self._sign_in.open_address(host, port)

    async def aclose(self) -> None:
        """Close the store of the sessions, and end the one-time addresses."""
        self._sign_in.close()
        await self._close()

    def routes(self) -> Sequence[Route]:
        """Return every route."""
        sign_out = PageEndpoint(self._pages, POST=self._sign_in.sign_out)
        return (
            Route("/", self._to_console, methods=["GET"]),
            Route("/console/assets/{name}", self._assets.serve, methods=["GET"]),
            *self._sign_in.routes(),
            Route(SIGN_OUT_PATH, sign_out),
            *(route for build in PARTS for route in build(self._pages)),
            Route("/console/{rest:path}", PageEndpoint(self._pages, GET=_missing)),
        )

    async def _to_console(self, _: Request) -> Response:
        """Lead whoever opens the gateway's address in a browser to the console."""
        return self._pages.redirect(CONSOLE_PATH)


async def _missing(_: PageRequest) -> PageResult:
    """Show that there is no such page, with a way back."""
    return PageView(template="no_page.html", status=404)
