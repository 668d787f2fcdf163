"""Assembles the console: routes, pages and one-time addresses."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mcp_tools_proxy.console.one_time_address import OneTimeAddresses
from mcp_tools_proxy.console.page_endpoint import PageEndpoint, Pages
from mcp_tools_proxy.console.page_request import PageRequest, PageResult, PageView, Routes
from mcp_tools_proxy.console.pages import (
    access_pages,
    approval_pages,
    call_pages,
    document_pages,
    document_reading,
    document_search,
    document_uploads,
    limits_page,
    overview_page,
    run_page,
    server_pages,
    token_pages,
    try_page,
)
from mcp_tools_proxy.console.pages.document_pages import show_upload
from mcp_tools_proxy.console.pages.document_uploads import upload_files
from mcp_tools_proxy.console.pages.help_pages import help_routes
from mcp_tools_proxy.console.sign_in import SIGN_OUT_PATH, ConsoleSignIn
from mcp_tools_proxy.console.templates import Assets
from mcp_tools_proxy.http.request_refusals import CONSOLE_PATH, CONSOLE_UPLOAD

PARTS: Sequence[Routes] = (
    overview_page.ROUTES,
    server_pages.ROUTES,
    access_pages.ROUTES,
    try_page.ROUTES,
    run_page.ROUTES,
    approval_pages.ROUTES,
    call_pages.ROUTES,
    limits_page.ROUTES,
    document_pages.ROUTES,
    document_reading.ROUTES,
    document_search.ROUTES,
    document_uploads.ROUTES,
    token_pages.ROUTES,
)
"""Routes of the console's parts."""


class Console:
    """All pages; ``close`` closes the session store."""

    def __init__(
        self,
        pages: Pages,
        sign_in: ConsoleSignIn,
        assets: Assets,
        addresses: OneTimeAddresses | None,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._pages = pages
        self._sign_in = sign_in
        self._assets = assets
        self._addresses = addresses
        self._close = close

    def open_address(self, host: str, port: int) -> str | None:
        """Return the one-time address of the listening gateway; None if these are off."""
        return None if self._addresses is None else self._addresses.open(host, port)

    async def aclose(self, *, ends_service: bool = True) -> None:
        """Close the session store; at the end of the service, invalidate one-time addresses."""
        if self._addresses is not None and ends_service:
            self._addresses.close()
        await self._close()

    def routes(self) -> Sequence[Route]:
        """Return every route."""
        upload_form = PageEndpoint(
            self._pages, {"GET": show_upload, "POST": upload_files}, has_file=True
        )
        sign_out = PageEndpoint(self._pages, {"POST": self._sign_in.sign_out})
        return (
            Route("/", self._to_console, methods=["GET"]),
            Route("/console/assets/{name}", self._assets.serve, methods=["GET"]),
            *self._sign_in.routes(),
            Route(SIGN_OUT_PATH, sign_out),
            *(
                Route(path, PageEndpoint(self._pages, handlers))
                for part in PARTS
                for path, handlers in part.items()
            ),
            Route(CONSOLE_UPLOAD[1], upload_form),
            *help_routes(self._pages),
            Route("/console/{rest:path}", PageEndpoint(self._pages, {"GET": _missing})),
        )

    async def _to_console(self, _: Request) -> Response:
        """Redirect browsers from / to the console."""
        return self._pages.redirect(CONSOLE_PATH)


async def _missing(_: PageRequest) -> PageResult:
    """Show a "page not found" page with a link back."""
    return PageView(template="no_page.html", status=404)
