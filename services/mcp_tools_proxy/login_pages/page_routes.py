"""The sign-in pages: routes without a token, since the user signs in, and their cookie."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import parse_qsl

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.domain.errors import (
    Forbidden,
    MethodNotAllowed,
    PayloadTooLarge,
    ProxyError,
    RouteNotFound,
    ServerUnavailable,
)
from mcp_tools_proxy.domain.sign_in_pages import (
    Closed,
    SignInFailed,
    SignInPages,
    SignInRefused,
    SignInUnknown,
)
from mcp_tools_proxy.login_pages.html_pages import (
    closing_page,
    confirmation_page,
    leading_page,
    refusal_page,
)
from mcp_tools_proxy.telemetry.change_events import SIGNED_IN, login_fields
from mcp_tools_proxy.web.body import read_body
from mcp_tools_proxy.web.cookies import single_cookie
from mcp_tools_proxy.web.request_refusals import (
    RecordedOperation,
    RequestRefusals,
    begin_operation,
    operation_of,
)
from mcp_tools_proxy.web.trace_headers import new_trace_id

COOKIE = "__Host-mcp-sign-in"
"""Browsers take a ``__Host-`` cookie from this very host alone, for all paths, with Secure."""

MAX_AGE_S = 600

_ATTRIBUTES = "Path=/; Secure; HttpOnly; SameSite=Lax"


def cookie_of(request: Request) -> str | None:
    """Return the cookie's value; None if the browser sent none, or several."""
    return single_cookie(request, COOKIE)


def set_cookie(response: Response, value: str) -> None:
    """Send the cookie, which the browser keeps for one step."""
    _append(response, f"{COOKIE}={value}; Max-Age={MAX_AGE_S}; {_ATTRIBUTES}")


def drop_cookie(response: Response) -> None:
    """Remove the cookie from the browser: each is good for one step."""
    _append(response, f"{COOKIE}=; Max-Age=0; {_ATTRIBUTES}")


def _append(response: Response, value: str) -> None:
    response.headers.append("Set-Cookie", value)


MAX_FORM_BYTES = 4096
MAX_FORM_FIELDS = 8

METADATA_AGE_S = 300
"""Seconds for which issuers may cache our client metadata document."""

Handler = Callable[[Request], Awaitable[Response]]


class LoginPages:
    """Serves the pages below ``pages_url``, and the client metadata document.

    Only ``pages_url`` is ever linked to: a request could name any host.
    """

    def __init__(
        self, pages: SignInPages, pages_url: str, client_metadata: Mapping[str, object]
    ) -> None:
        self._pages = pages
        self._pages_url = pages_url
        self._client_metadata = to_json(dict(client_metadata))

    def routes(self, refusals: RequestRefusals) -> Sequence[Route]:
        """Return the routes; what is refused, and how a sign-in ends, is recorded."""

        def endpoint(**handlers: Handler) -> _PageEndpoint:
            return _PageEndpoint(refusals, handlers)

        return (
            Route("/oauth/start/{nonce}", endpoint(GET=self._start, POST=self._confirm)),
            Route("/oauth/callback", endpoint(GET=self._callback)),
            Route("/oauth/done", endpoint(GET=self._done)),
            Route("/oauth/client.json", endpoint(GET=self._client)),
        )

    async def _start(self, request: Request) -> Response:
        """Send the browser to the issuer of callers' tokens."""
        going = await self._pages.start(request.path_params["nonce"])
        response = _redirect(going.url)
        set_cookie(response, going.cookie)
        return response

    async def _confirm(self, request: Request) -> Response:
        """Send the browser to the server's issuer, as the user pressed the button."""
        form = await _read_form(request)
        going = await self._pages.confirm(
            request.path_params["nonce"], form.get("csrf", ""), cookie_of(request)
        )
        response = leading_page(going.url)
        set_cookie(response, going.cookie)
        return response

    async def _callback(self, request: Request) -> Response:
        """Answer an issuer: with the page to confirm, or on the way to the closing page."""
        shown = await self._pages.answer(dict(request.query_params), cookie_of(request))
        if isinstance(shown, Closed):
            problem = {"reason": shown.problem} if shown.problem else {}
            fields = {**login_fields(shown.owner), **problem}
            begin_operation(request.scope, RecordedOperation(SIGNED_IN, fields))
            response: Response = _redirect(f"{self._pages_url}/oauth/done")
        else:
            response = confirmation_page(shown, f"{self._pages_url}/oauth/start/{shown.nonce}")
        set_cookie(response, shown.cookie)
        return response

    async def _done(self, request: Request) -> Response:
        """Show how the sign-in has ended."""
        response = closing_page(await self._pages.closing(cookie_of(request)))
        drop_cookie(response)
        return response

    async def _client(self, _: Request) -> Response:
        """Show issuers what client the gateway is."""
        headers = {"Cache-Control": f"public, max-age={METADATA_AGE_S}"}
        return Response(self._client_metadata, headers=headers, media_type="application/json")


class _PageEndpoint:
    """The ASGI app of one path: a handler for each method; HEAD is none, for it would use up."""

    def __init__(self, refusals: RequestRefusals, handlers: Mapping[str, Handler]) -> None:
        self._refusals = refusals
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await (await self._respond(request))(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        handler = self._handlers.get(request.method)
        if handler is None:
            text = "Method not allowed. Open this URL in a browser."
            self._record_refusal(request, MethodNotAllowed(text))
            refused = refusal_page(text, 405)
            refused.headers["Allow"] = ", ".join(self._handlers)
            return refused
        try:
            response = await handler(request)
        except SignInRefused as error:
            self._record_refusal(request, _ERRORS[error.status](str(error)))
            refused = refusal_page(str(error), error.status)
            drop_cookie(refused)
            return refused
        self._record_end(request)
        return response

    def _record_refusal(self, request: Request, error: ProxyError) -> None:
        self._refusals.record_refusal(request.scope, error, new_trace_id())

    def _record_end(self, request: Request) -> None:
        """Record how a sign-in has ended, if it did in this request."""
        ended = operation_of(request.scope)
        if ended is not None:
            code = ServerUnavailable.code if "reason" in ended.fields else "OK"
            self._refusals.record_operation(request.scope, code, new_trace_id())


_ERRORS: Mapping[int, type[ProxyError]] = {
    SignInRefused.status: Forbidden,
    SignInUnknown.status: RouteNotFound,
    SignInFailed.status: ServerUnavailable,
}
"""As what the refusal of a page is recorded, by its status."""


async def _read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form; an empty one for what is none. Raises SignInRefused."""
    try:
        body = await read_body(request.receive, MAX_FORM_BYTES)
        fields = parse_qsl(body.decode("ascii"), max_num_fields=MAX_FORM_FIELDS)
    except (PayloadTooLarge, ValueError):
        raise SignInRefused("The form could not be read. Nothing was connected.") from None
    return dict(fields)


def _redirect(url: str) -> Response:
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return RedirectResponse(url, 303, headers)
