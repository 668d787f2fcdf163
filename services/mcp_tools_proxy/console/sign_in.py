"""The pages by which people sign in to the console and out of it."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.auth.admin_token import LocalTokens
from mcp_tools_proxy.console.endpoint import SIGN_IN_PATH, Pages, redirect
from mcp_tools_proxy.console.navigation import parts_for
from mcp_tools_proxy.console.one_time_address import GUEST, OneTimeCodes
from mcp_tools_proxy.console.page import Done, PageRequest, PageResult, View
from mcp_tools_proxy.console.sessions import SESSION_S
from mcp_tools_proxy.domain.errors import Forbidden, MethodNotAllowed, ProxyError, Unauthenticated
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.web.request_refusals import RecordedOperation, begin_operation
from mcp_tools_proxy.web.trace_headers import new_trace_id

BEGIN_PATH = "/console/begin"
SIGN_OUT_PATH = "/console/sign-out"

SIGNED_IN = "console.signed_in"
SIGNED_OUT = "console.signed_out"

UNKNOWN_CODE = (
    "This address is not good any more: its ten minutes are over, or it was used. Run "
    "mcp-tools-proxy console to get another."
)

Handler = Callable[[Request], Awaitable[Response]]


class SignIn:
    """Signs people in by a token, or by the code of a one-time address; and out again."""

    def __init__(self, pages: Pages, local_tokens: LocalTokens, codes: OneTimeCodes | None) -> None:
        self._pages = pages
        self._local_tokens = local_tokens
        self._codes = codes

    def routes(self) -> tuple[Route, ...]:
        """Return the routes that need no session."""
        return (
            Route(SIGN_IN_PATH, _OpenEndpoint(self._pages, GET=self.show, POST=self.by_token)),
            Route(BEGIN_PATH, _OpenEndpoint(self._pages, GET=self.show_code, POST=self.by_code)),
        )

    async def show(self, request: Request) -> Response:
        """Show the form that takes a token."""
        return self._form(request, ended="ended" in request.query_params)

    async def by_token(self, request: Request) -> Response:
        """Sign in by a token that proves an operator."""
        form = await self._pages.own_form(request)
        token = form.text("token")
        self._check_brake(request)
        if not token:
            return self._form(request, problem="Paste a token first.", status=400)
        try:
            operator = await self._pages.identify(token)
        except Unauthenticated as error:
            self._record_refusal(request, error)
            return self._form(request, problem=f"{error.message}.", status=401)
        if not parts_for(operator)[1:]:
            refusal = Forbidden("the token has no operator right; sign in by one that has")
            self._record_refusal(request, refusal)
            return self._form(request, problem=f"{refusal.message}.", status=403)
        return await self._begin(request, token, operator)

    async def show_code(self, request: Request) -> Response:
        """Show the button that uses a code up: a preview of the address by a program does not."""
        code = request.query_params.get("code", "")
        if self._codes is None or not self._codes.is_good(code):
            raise Forbidden(UNKNOWN_CODE)
        return self._pages.render(request, View(template="begin.html", context={"code": code}))

    async def by_code(self, request: Request) -> Response:
        """Sign in by the code of a one-time address."""
        form = await self._pages.own_form(request)
        self._check_brake(request)
        if self._codes is None or not self._codes.redeem(form.text("code")):
            raise Unauthenticated(UNKNOWN_CODE, token_refused=True)
        token = self._local_tokens.issue(GUEST, SESSION_S)
        return await self._begin(request, token, GUEST)

    async def sign_out(self, page: PageRequest) -> PageResult:
        """End the session; the browser forgets what it has of it."""
        begin_operation(
            page.request.scope, RecordedOperation(SIGNED_OUT, page.operator.token_log_fields)
        )
        await self._pages.sessions.end(page.session)
        self._local_tokens.revoke(page.session.token)
        self._pages.refusals.record_operation(page.request.scope, "OK", new_trace_id())
        response = redirect(Done(path=SIGN_IN_PATH, message="You are signed out."))
        self._pages.cookie.drop_on(response)
        response.headers["Clear-Site-Data"] = '"cache", "storage"'
        return response

    async def _begin(self, request: Request, token: str, operator: Principal) -> Response:
        """Begin a session, new at each sign-in, and go on to the first part that is there."""
        before = self._pages.cookie.value_in(request)
        old = None if before is None else await self._pages.sessions.find(before)
        if old is not None:
            await self._pages.sessions.end(old)
        ends_at = None if operator.jwt is None else operator.jwt[1]
        session = await self._pages.sessions.begin(token, ends_at=ends_at)
        begin_operation(request.scope, RecordedOperation(SIGNED_IN, operator.token_log_fields))
        self._pages.refusals.record_operation(request.scope, "OK", new_trace_id())
        response = redirect(Done(path=parts_for(operator)[0].path, message=""))
        self._pages.cookie.set_on(response, session.cookie)
        return response

    def _form(
        self, request: Request, *, problem: str = "", ended: bool = False, status: int = 200
    ) -> HTMLResponse:
        context = {
            "problem": problem,
            "ended": ended,
            "has_codes": self._codes is not None,
            "issuer": "",
        }
        return self._pages.render(
            request, View(template="sign_in.html", context=context, status=status)
        )

    def _check_brake(self, request: Request) -> None:
        """Raise Unauthenticated for an address that has sent many bad tokens."""
        refusals = self._pages.refusals
        wait_s = refusals.tokens.wait_s(refusals.peers.address_of(request.scope))
        if wait_s is not None:
            raise Unauthenticated(
                "too many invalid tokens came from this address; wait a minute, then try again",
                retry_after_s=wait_s,
            )

    def _record_refusal(self, request: Request, error: ProxyError) -> None:
        self._pages.refusals.record_refusal(request.scope, error, new_trace_id())


class _OpenEndpoint:
    """The ASGI app of a page that needs no session."""

    def __init__(self, pages: Pages, **handlers: Handler) -> None:
        self._pages = pages
        self._handlers: Mapping[str, Handler] = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await (await self._respond(request))(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        handler = self._handlers.get("GET" if request.method == "HEAD" else request.method)
        try:
            if handler is None:
                raise MethodNotAllowed("this address cannot be used so; open it in a browser")
            return await handler(request)
        except ProxyError as error:
            return self._pages.refuse(request, error)
