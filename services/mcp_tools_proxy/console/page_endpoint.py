"""Serves pages: looks up the session, checks forms, and renders results and errors."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.auth.caller_resolver import PRINCIPAL
from mcp_tools_proxy.console.api_client import ApiClient, ApiRefused, SessionEnded
from mcp_tools_proxy.console.forms import Form, read_file_form, read_form
from mcp_tools_proxy.console.name_directory import NameDirectory
from mcp_tools_proxy.console.navigation import (
    START,
    address_of,
    current_part,
    parts_for,
    wanted_page,
)
from mcp_tools_proxy.console.page_request import (
    PAGE_HEADERS,
    Done,
    OwnOrigin,
    PageHandler,
    PageRequest,
    PageResult,
    PageView,
    Site,
    page_address,
)
from mcp_tools_proxy.console.sessions import Session, SessionCookie, Sessions
from mcp_tools_proxy.console.templates import Templates, signed_in_as
from mcp_tools_proxy.domain.audit import Entry
from mcp_tools_proxy.domain.errors import (
    Forbidden,
    LoginsUnavailable,
    MethodNotAllowed,
    ProxyError,
    Unauthenticated,
)
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.gateway.approval_desk import ApprovalDesk
from mcp_tools_proxy.http.request_headers import new_trace_id
from mcp_tools_proxy.http.request_refusals import CONSOLE_PATH, RequestRefusals
from mcp_tools_proxy.http.responses import error_headers, status_of

SIGN_IN_PATH = "/console/sign-in"

FORM_MARGIN_BYTES = 64 * 1024
"""Bytes that a form may exceed the largest API request."""

MAX_LARGE_READS = 2
"""Whole documents read and parsed concurrently; the text of one can have 60 MB."""

Identify = Callable[[str], Awaitable[Principal]]
"""Returns the principal of a bearer token. Raises Unauthenticated."""


class Pages:
    """Services shared by all pages; ``routes`` are the API's routes.

    ``base`` is the proxy's path prefix, or "". Links contain no host.
    """

    def __init__(
        self,
        *,
        templates: Templates,
        sessions: Sessions,
        cookie: SessionCookie,
        origin: OwnOrigin,
        identify: Identify,
        names: NameDirectory,
        routes: Sequence[Route],
        base: str,
        refusals: RequestRefusals,
        dashboard_url: str | None,
        trace_url: str | None,
        max_form_bytes: int,
        open_approvals: Callable[[], Awaitable[ApprovalDesk]],
    ) -> None:
        self.templates = templates
        self.sessions = sessions
        self.cookie = cookie
        self.origin = origin
        self.identify = identify
        self.names = names
        self.refusals = refusals
        self._routes = routes
        self.base = base
        self._dashboard_url = dashboard_url
        self._max_form_bytes = max_form_bytes
        self._site = Site(
            render=templates.render,
            public_url=origin.public_url,
            trace_url=trace_url,
            large_reads=asyncio.Semaphore(MAX_LARGE_READS),
            open_approvals=open_approvals,
        )

    def render(
        self,
        request: Request,
        view: PageView,
        page: PageRequest | None = None,
    ) -> HTMLResponse:
        """Render a page within the common layout; ``page`` is None before sign-in."""
        current = current_part(request.url.path)
        message = None if page is None else self.cookie.message_in(request, page.session)
        html = self.templates.render(
            view.template,
            current=current,
            help_path=f"/console/help/{START if current is None else current.guide}",
            message=message,
            **({} if page is None else self._context_of(page)),
            **view.context,
        )
        response = HTMLResponse(html, view.status, PAGE_HEADERS)
        if message is not None:
            self.cookie.drop_message_on(response)
        return response

    def _context_of(self, page: PageRequest) -> Mapping[str, object]:
        operator = page.operator
        name = operator.user_id or self.names.own_note(operator) or signed_in_as(operator)
        return {
            "agents": page.agents,
            "csrf": page.session.csrf,
            "dashboard_url": self._dashboard_url,
            "operator": operator,
            "parts": parts_for(operator),
            "signed_in_as": name,
            "titles": self.names.server_titles(),
        }

    def refuse(
        self, request: Request, error: ProxyError, page: PageRequest | None = None
    ) -> HTMLResponse:
        """Count and record a refused request, and render its error page."""
        trace_id = new_trace_id()
        self.refusals.record_refusal(request.scope, error, trace_id)
        view = refusal_view(page_status(error), error.code, error.message, error.details or {})
        response = self.render(request, view, page)
        for name, value in error_headers(error, trace_id).items():
            response.headers[name] = value
        return response

    def redirect(self, path: str) -> Response:
        """Redirect the browser to a page."""
        return RedirectResponse(f"{self.base}{path}", 303, PAGE_HEADERS)

    def done(self, done: Done, session: Session) -> Response:
        """Redirect to the page that shows the message of an action."""
        response = self.redirect(done.path)
        if done.message:
            self.cookie.set_message_on(response, session, done.message)
        return response

    def to_sign_in(self, request: Request, wanted: str) -> Response:
        """Redirect the browser to the sign-in, and from there to the wanted page.

        For htmx requests the header HX-Redirect is set, otherwise htmx would insert the sign-in
        page into the current one.
        """
        had_cookie = self.cookie.session.value_in(request) is not None
        query = {"ended": "1" if had_cookie else "", "wanted": wanted}
        response = self.redirect(page_address(SIGN_IN_PATH, query))
        if request.headers.get("hx-request") == "true":
            headers = {**PAGE_HEADERS, "HX-Redirect": response.headers["location"]}
            response = Response(status_code=204, headers=headers)
        if had_cookie:
            self.cookie.session.drop_on(response)
        return response

    async def signed_in(self, request: Request) -> PageRequest | None:
        """Return the request with its session; None if the browser is not signed in.

        The token is verified on every request, so revoking it ends the session. Raises
        LoginsUnavailable.
        """
        cookie = self.cookie.session.value_in(request)
        session = None if cookie is None else await self.sessions.find(cookie)
        if session is None:
            return None
        try:
            operator = await self.identify(session.token)
        except Unauthenticated:
            await self.sessions.end(session)
            return None
        request.scope[PRINCIPAL] = operator
        return PageRequest(
            request=request,
            session=session,
            sessions=self.sessions,
            operator=operator,
            api=ApiClient(self._routes, request, session.token),
            names=self.names,
            agents=await self.names.agents(operator),
            site=self._site,
            origin=self.refusals.peers.origin_of(request.scope, Entry.CONSOLE),
        )

    async def own_form(
        self, request: Request, *, has_file: bool = False, max_bytes: int | None = None
    ) -> Form:
        """Read a form sent by our page. Raises Forbidden, InvalidRequest.

        With ``has_file`` only the fields before the file are read. ``max_bytes`` is for pages
        without a session, whose forms anyone can send.
        """
        if not self.origin.sent(request):
            raise Forbidden(
                "this form was sent from a page with a different address; nothing was changed. "
                "Behind a proxy, set MCP_PROXY_PUBLIC_URL to the address in the browser"
            )
        if has_file:
            return await read_file_form(request, FORM_MARGIN_BYTES)
        return await read_form(request, max_bytes or self._max_form_bytes)


class PageEndpoint:
    """ASGI app of one path for signed-in browsers, with a handler for each method.

    With ``has_file`` the handler receives the form with an unread file.
    """

    def __init__(
        self, pages: Pages, handlers: Mapping[str, PageHandler], *, has_file: bool = False
    ) -> None:
        self._pages = pages
        self._has_file = has_file
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        response = await self._respond(request)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        try:
            page = await self._pages.signed_in(request)
        except LoginsUnavailable as error:
            return self._pages.refuse(request, error)
        if page is None:
            return self._to_sign_in(request)
        try:
            result = await _with_names(page, await self._result(page))
        except SessionEnded:
            return self._to_sign_in(request)
        except ApiRefused as error:
            return self._refused_by_api(page, error)
        except ProxyError as error:
            return self._pages.refuse(request, error, page)
        return self._response(page, result)

    async def _result(self, page: PageRequest) -> PageResult:
        request = page.request
        handler = handler_of(self._handlers, request)
        if request.method != "POST":
            return await handler(page)
        form = await self._pages.own_form(request, has_file=self._has_file)
        if not page.session.allows(form.raw("csrf")):
            raise Forbidden(
                "this form is no longer valid; nothing was changed. Reload the page and try again"
            )
        return await handler(replace(page, form=form))

    def _response(self, page: PageRequest, result: PageResult) -> Response:
        if isinstance(result, Response):
            return result
        if isinstance(result, Done):
            return self._pages.done(result, page.session)
        return self._pages.render(page.request, result, page)

    def _to_sign_in(self, request: Request) -> Response:
        """Redirect to the sign-in; only pages, never actions, are resumed afterwards."""
        is_page = request.method == "GET" and "GET" in self._handlers
        wanted = wanted_page(address_of(request)) if is_page else ""
        return self._pages.to_sign_in(request, "" if wanted == CONSOLE_PATH else wanted)

    def _refused_by_api(self, page: PageRequest, error: ApiRefused) -> Response:
        """Show an error of the API, which has already counted and recorded it."""
        view = refusal_view(error.status, error.code, error.message, error.details)
        return self._pages.render(page.request, view, page)


HandlerT = TypeVar("HandlerT")


def handler_of(handlers: Mapping[str, HandlerT], request: Request) -> HandlerT:
    """Return the handler for a request's method. Raises MethodNotAllowed."""
    handler = handlers.get("GET" if request.method == "HEAD" else request.method)
    if handler is None:
        raise MethodNotAllowed("method not allowed; open this URL in a browser")
    return handler


async def _with_names(page: PageRequest, result: PageResult) -> PageResult:
    """Add the suggested names for the fields of a page."""
    if not isinstance(result, PageView) or not result.suggests:
        return result
    tenant_id = page.tenant() or page.form.text("tenant_id")
    known = await page.names.suggested(page.operator, page.agents, tenant_id)
    return replace(result, context={"known": known, **result.context})


def page_status(error: ProxyError) -> int:
    """Return the HTTP status of an error page, always 4xx or 5xx.

    The API reports some errors with status 200; a page with that status would replace the current
    content.
    """
    status = status_of(error).api
    if status >= HTTPStatus.BAD_REQUEST:
        return status
    return HTTPStatus.SERVICE_UNAVAILABLE if error.retryable else HTTPStatus.UNPROCESSABLE_ENTITY


def refusal_view(status: int, code: str, message: str, details: Mapping[str, Any]) -> PageView:
    """Return the page of an error."""
    context = {"code": code, "text": message, "details": details}
    return PageView(template="refused.html", context=context, status=status)
