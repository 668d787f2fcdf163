"""Pages to sign in to the console and sign out."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.auth.operator_tokens import GUEST, GuestTokens
from mcp_tools_proxy.console.navigation import first_path, wanted_page
from mcp_tools_proxy.console.one_time_address import OneTimeAddresses
from mcp_tools_proxy.console.page_endpoint import (
    FORM_MARGIN_BYTES,
    SIGN_IN_PATH,
    Pages,
    handler_of,
)
from mcp_tools_proxy.console.page_request import PageRequest, PageResult, PageView
from mcp_tools_proxy.console.sessions import SESSION_S, Session
from mcp_tools_proxy.domain.errors import (
    Forbidden,
    LoginsUnavailable,
    MethodNotAllowed,
    ProxyError,
    RouteNotFound,
    Unauthenticated,
)
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.domain.logins import OwnSignIn, SignInRefused
from mcp_tools_proxy.http.request_headers import new_trace_id
from mcp_tools_proxy.http.request_refusals import RecordedOperation, begin_operation
from mcp_tools_proxy.http.responses import error_headers

BEGIN_PATH = "/console/begin"
ISSUER_PATH = "/console/issuer"
CALLBACK_PATH = "/console/callback"
SIGN_OUT_PATH = "/console/sign-out"

SIGNED_IN = "console.signed_in"
SIGNED_OUT = "console.signed_out"

UNKNOWN_CODE = (
    "This sign-in link has expired or was already used. Run mcp-tools-proxy console to get a new "
    "one."
)

Handler = Callable[[Request], Awaitable[Response]]


class ConsoleSignIn:
    """Signs users in by token, one-time address or issuer, and out."""

    def __init__(
        self,
        pages: Pages,
        guest_tokens: GuestTokens,
        addresses: OneTimeAddresses | None,
        *,
        issuer: OwnSignIn | None,
        issuer_name: str,
    ) -> None:
        self._pages = pages
        self._guest_tokens = guest_tokens
        self._addresses = addresses
        self._issuer = issuer
        self._issuer_name = issuer_name

    def routes(self) -> tuple[Route, ...]:
        """Return the routes that do not require a session."""
        return (
            Route(SIGN_IN_PATH, _OpenEndpoint(self._pages, GET=self.show, POST=self.by_token)),
            Route(BEGIN_PATH, _OpenEndpoint(self._pages, GET=self.show_code, POST=self.by_code)),
            Route(ISSUER_PATH, _OpenEndpoint(self._pages, POST=self.to_issuer)),
            Route(CALLBACK_PATH, _OpenEndpoint(self._pages, GET=self.from_issuer)),
        )

    async def show(self, request: Request) -> Response:
        """Show the sign-in form."""
        query = request.query_params
        return self._form(
            request,
            query.get("wanted", ""),
            notice="ended" if "ended" in query else "signed_out" if "signed_out" in query else "",
        )

    async def by_token(self, request: Request) -> Response:
        """Sign in with an operator's token or a user's JWT."""
        form = await self._pages.own_form(request, max_bytes=FORM_MARGIN_BYTES)
        token, wanted = form.text("token"), form.raw("wanted")
        if not token:
            return self._form(request, wanted, problem="Enter a token.", status=400)
        try:
            operator = await self._pages.identify(token)
        except Unauthenticated as error:
            self._record_refusal(request, error)
            problem = error.message if error.retry_after_s is None else _TOO_MANY
            response = self._form(request, wanted, problem=problem, status=401)
            response.headers.update(error_headers(error, new_trace_id()))
            return response
        if not operator.rights and operator.jwt is None:
            refusal = Forbidden(
                "the token has no operator right; sign in with a token that has one"
            )
            self._record_refusal(request, refusal)
            return self._form(request, wanted, problem=refusal.message, status=403)
        try:
            return await self._begin(request, token, operator, wanted)
        except LoginsUnavailable as error:
            self._record_refusal(request, error)
            return self._form(request, wanted, problem=error.message, status=503)

    async def show_code(self, request: Request) -> Response:
        """Show a button that redeems the code, so link previews do not use it up."""
        code = request.query_params.get("code", "")
        if self._addresses is None or not await self._addresses.is_valid(code):
            raise Forbidden(UNKNOWN_CODE)
        return self._pages.render(request, PageView(template="begin.html", context={"code": code}))

    async def by_code(self, request: Request) -> Response:
        """Sign in with the code of a one-time address."""
        form = await self._pages.own_form(request, max_bytes=FORM_MARGIN_BYTES)
        if self._addresses is None or not await self._addresses.redeem(form.text("code")):
            raise Unauthenticated(UNKNOWN_CODE, token_refused=True)
        token = self._guest_tokens.issue(SESSION_S)
        return await self._begin(request, token, GUEST, "")

    async def to_issuer(self, request: Request) -> Response:
        """Send the browser to the issuer by a page that continues immediately.

        A redirect would fail: Chromium applies ``form-action`` to redirects after a form.
        """
        if self._issuer is None:
            raise RouteNotFound("sign-in with an issuer is not configured here")
        form = await self._pages.own_form(request, max_bytes=FORM_MARGIN_BYTES)
        going = await self._issuer.begin()
        context = {"url": going.url, "issuer": self._issuer_name}
        response = self._pages.render(request, PageView(template="to_issuer.html", context=context))
        self._pages.cookie.set_trip_on(response, going.cookie, wanted_page(form.raw("wanted")))
        return response

    async def from_issuer(self, request: Request) -> Response:
        """Sign in a user who returns from the issuer.

        Renders a page that continues immediately, because session cookies are not sent along a
        redirect started by another site.
        """
        if self._issuer is None:
            raise RouteNotFound("sign-in with an issuer is not configured here")
        if request.method == "HEAD":  # a link checker would use up the sign-in
            raise MethodNotAllowed("method not allowed; open this URL in a browser")
        answer = dict(request.query_params)
        token = await self._issuer.finish(answer, self._pages.cookie.trip.value_in(request))
        operator = await self._pages.identify(token)
        session = await self._new_session(request, token, operator)
        wanted = wanted_page(self._pages.cookie.wanted_in(request))
        context = {"path": wanted or first_path(operator)}
        response = self._pages.render(request, PageView(template="signed_in.html", context=context))
        self._pages.cookie.drop_trip_on(response)
        self._pages.cookie.session.set_on(response, session.cookie)
        return response

    async def sign_out(self, page: PageRequest) -> PageResult:
        """End the session and remove its cookie."""
        begin_operation(
            page.request.scope, RecordedOperation(SIGNED_OUT, page.operator.token_log_fields)
        )
        await self._pages.sessions.end(page.session)
        self._pages.refusals.record_operation(page.request.scope, "OK", new_trace_id())
        response = self._pages.redirect(f"{SIGN_IN_PATH}?signed_out=1")
        self._pages.cookie.session.drop_on(response)
        response.headers["Clear-Site-Data"] = '"cache"'  # "storage" is shared with other apps
        return response

    async def _begin(
        self, request: Request, token: str, operator: Principal, wanted: str
    ) -> Response:
        """Sign in, and redirect to the wanted page or the first page of the user."""
        session = await self._new_session(request, token, operator)
        response = self._pages.redirect(wanted_page(wanted) or first_path(operator))
        self._pages.cookie.session.set_on(response, session.cookie)
        return response

    async def _new_session(self, request: Request, token: str, operator: Principal) -> Session:
        """Start a new session for each sign-in, and end the browser's previous one."""
        before = self._pages.cookie.session.value_in(request)
        old = None if before is None else await self._pages.sessions.find(before)
        if old is not None:
            await self._pages.sessions.end(old)
        ends_at = None if operator.jwt is None else operator.jwt[1]
        owner = tuple(sorted(operator.token_log_fields.items()))
        session = await self._pages.sessions.begin(
            token, owner, tenant_id=operator.tenant_id, ends_at=ends_at
        )
        begin_operation(request.scope, RecordedOperation(SIGNED_IN, operator.token_log_fields))
        self._pages.refusals.record_operation(request.scope, "OK", new_trace_id())
        return session

    def _form(
        self,
        request: Request,
        wanted: str,
        *,
        problem: str = "",
        notice: str = "",
        status: int = 200,
    ) -> HTMLResponse:
        context = {
            "problem": problem,
            "notice": notice,
            "wanted": wanted_page(wanted),
            "has_addresses": self._addresses is not None,
            "issuer": "" if self._issuer is None else self._issuer_name,
        }
        return self._pages.render(
            request, PageView(template="sign_in.html", context=context, status=status)
        )

    def _record_refusal(self, request: Request, error: ProxyError) -> None:
        self._pages.refusals.record_refusal(request.scope, error, new_trace_id())


_TOO_MANY = "too many sign-in attempts with invalid tokens from this address; wait a minute"
"""Valid tokens are always accepted: behind a proxy, all users can share one address."""


class _OpenEndpoint:
    """ASGI app of a page that does not require a session."""

    def __init__(self, pages: Pages, **handlers: Handler) -> None:
        self._pages = pages
        self._handlers: Mapping[str, Handler] = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await (await self._respond(request))(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        try:
            return await handler_of(self._handlers, request)(request)
        except SignInRefused as error:
            return self._pages.refuse(request, Forbidden(str(error)))
        except ProxyError as error:
            return self._pages.refuse(request, error)
