"""Sign-in pages for users of a deployed gateway: HTML without scripts.

Sign-ins and their state are in ``SignInPages``.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from html import escape
from urllib.parse import parse_qsl

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from yarl import URL

from mcp_tools_proxy.domain.errors import (
    Forbidden,
    MethodNotAllowed,
    PayloadTooLarge,
    ProxyError,
    RouteNotFound,
    ServerUnavailable,
)
from mcp_tools_proxy.domain.logins import (
    Closed,
    Closing,
    Confirmation,
    SignInFailed,
    SignInPages,
    SignInRefused,
    SignInUnknown,
)
from mcp_tools_proxy.http.body import read_body
from mcp_tools_proxy.http.request_headers import Cookie, new_trace_id
from mcp_tools_proxy.http.request_refusals import (
    RecordedOperation,
    RequestRefusals,
    begin_operation,
    operation_of,
)
from mcp_tools_proxy.telemetry.request_events import SIGNED_IN, login_fields
from mcp_tools_proxy.wire.text import printable

COOKIE = Cookie(name="__Host-mcp-sign-in", max_age_s=600)
"""The browser's state for one step of a sign-in."""

MAX_FORM_BYTES = 4096
MAX_FORM_FIELDS = 8

METADATA_AGE_S = 300
"""Cache time of our client metadata document for issuers, in seconds."""

Handler = Callable[[Request], Awaitable[Response]]


class LoginPages:
    """Serves the pages below ``pages_url``, and the client metadata document.

    All links use ``pages_url``, since a request could name any host.
    """

    def __init__(
        self, pages: SignInPages, pages_url: str, client_metadata: Mapping[str, object]
    ) -> None:
        self._pages = pages
        self._pages_url = pages_url
        self._client_metadata = to_json(dict(client_metadata))

    def routes(self, refusals: RequestRefusals) -> Sequence[Route]:
        """Return the routes; refusals and the results of sign-ins are recorded."""

        def endpoint(**handlers: Handler) -> _PageEndpoint:
            return _PageEndpoint(refusals, handlers)

        return (
            Route("/oauth/start/{nonce}", endpoint(GET=self._start, POST=self._confirm)),
            Route("/oauth/callback", endpoint(GET=self._callback)),
            Route("/oauth/done", endpoint(GET=self._done)),
            Route("/oauth/client.json", endpoint(GET=self._client)),
        )

    async def _start(self, request: Request) -> Response:
        going = await self._pages.start(request.path_params["nonce"])
        response = _redirect(going.url)
        COOKIE.set_on(response, going.cookie)
        return response

    async def _confirm(self, request: Request) -> Response:
        form = await _read_form(request)
        going = await self._pages.confirm(
            request.path_params["nonce"], form.get("csrf", ""), COOKIE.value_in(request)
        )
        response = leading_page(going.url)
        COOKIE.set_on(response, going.cookie)
        return response

    async def _callback(self, request: Request) -> Response:
        """Show the confirmation page, or redirect to the closing page."""
        shown = await self._pages.answer(dict(request.query_params), COOKIE.value_in(request))
        if isinstance(shown, Closed):
            problem = {"reason": shown.problem} if shown.problem else {}
            fields = {**login_fields(shown.owner), **problem}
            begin_operation(request.scope, RecordedOperation(SIGNED_IN, fields))
            response: Response = _redirect(f"{self._pages_url}/oauth/done")
        else:
            response = confirmation_page(shown, f"{self._pages_url}/oauth/start/{shown.nonce}")
        COOKIE.set_on(response, shown.cookie)
        return response

    async def _done(self, request: Request) -> Response:
        response = closing_page(await self._pages.closing(COOKIE.value_in(request)))
        COOKIE.drop_on(response)
        return response

    async def _client(self, _: Request) -> Response:
        headers = {"Cache-Control": f"public, max-age={METADATA_AGE_S}"}
        return Response(self._client_metadata, headers=headers, media_type="application/json")


class _PageEndpoint:
    """The ASGI app of one path. HEAD is refused, as it would use the nonce."""

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
            COOKIE.drop_on(refused)
            return refused
        self._record_end(request)
        return response

    def _record_refusal(self, request: Request, error: ProxyError) -> None:
        self._refusals.record_refusal(request.scope, error, new_trace_id())

    def _record_end(self, request: Request) -> None:
        ended = operation_of(request.scope)
        if ended is not None:
            code = ServerUnavailable.code if "reason" in ended.fields else "OK"
            self._refusals.record_operation(request.scope, code, new_trace_id())


_ERRORS: Mapping[int, type[ProxyError]] = {
    SignInRefused.status: Forbidden,
    SignInUnknown.status: RouteNotFound,
    SignInFailed.status: ServerUnavailable,
}
"""The recorded error for each status of a refusal page."""


async def _read_form(request: Request) -> Mapping[str, str]:
    try:
        body = await read_body(request.receive, MAX_FORM_BYTES)
        fields = parse_qsl(body.decode("ascii"), max_num_fields=MAX_FORM_FIELDS)
    except (PayloadTooLarge, ValueError):
        raise SignInRefused("The form could not be read. Nothing was connected.") from None
    return dict(fields)


def _redirect(url: str) -> Response:
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return RedirectResponse(url, 303, headers)


MAX_SHOWN_CHARS = 400
"""Longer texts of servers and users are truncated, so that they do not hide the page's content."""

_STYLE = (
    "body{font:1rem/1.5 sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}"
    "dt{font-weight:bold}dd{margin:0 0 .5rem;overflow-wrap:anywhere}"
    "button{font:inherit;padding:.5rem 1.5rem}"
)
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()

_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def confirmation_page(shown: Confirmation, action: str) -> HTMLResponse:
    """Build the page that names the server and the account, with the button to continue."""
    sentence = (
        f"Connect the server {_text(shown.server_id)} to your account "
        f"{_text(shown.user_id)} (tenant {_text(shown.tenant_id)}) on this gateway?"
    )
    rows = (
        ("Server", f"{_text(shown.server_id)}, {_text(shown.server_url)}"),
        ("Your account", f"{_text(shown.user_id)} (tenant {_text(shown.tenant_id)})"),
        ("Permissions for the gateway (scopes)", _scopes(shown.scopes)),
        ("Sign-in page", _text(shown.origin)),
        ("Token issuer", _text(shown.issuer)),
    )
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    form = (
        f'<form method="post" action="{escape(action)}">'
        f'<input type="hidden" name="csrf" value="{escape(shown.csrf)}">'
        f"<button>Continue to {_text(shown.origin)}</button></form>"
    )
    advice = "<p>If you did not request this, close this page. Nothing will be connected.</p>"
    return _page(
        "Connect a server",
        f"<p>{sentence}</p><dl>{listed}</dl>{form}{advice}",
        form_action="'self'",
    )


def leading_page(url: str) -> HTMLResponse:
    """Build the page that forwards to an issuer, automatically or by its link.

    A redirect would fail: Chromium applies ``form-action`` of the form's page to every further
    redirect, and the other hosts of an issuer are unknown.
    """
    origin = _text(str(URL(url).origin()))
    return _page(
        f"Redirecting to {origin}",
        f'<p><a href="{escape(url)}">Continue to {origin}</a></p>',
        head=f'<meta http-equiv="refresh" content="0;url={escape(url)}">',
    )


def closing_page(closing: Closing | None) -> HTMLResponse:
    """Build the page that ends a sign-in."""
    if closing is None:
        return _page("No recent sign-in", "<p>This page shows the result of a sign-in.</p>")
    if closing.problem:
        return _page(
            "Not connected",
            f"<p>Server {_text(closing.server_id)}: {_text(closing.problem)}</p>",
        )
    return _page(
        "Connected",
        f"<p>The server {_text(closing.server_id)} is connected to your account. You can close "
        "this page and retry your request.</p>",
    )


def refusal_page(message: str, status: int) -> HTMLResponse:
    """Build the page of a refused request."""
    return _page("Not connected", f"<p>{_text(message)}</p>", status)


def _page(
    title: str, content: str, status: int = 200, *, form_action: str = "'none'", head: str = ""
) -> HTMLResponse:
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {form_action}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )
    document = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"{head}<title>{title}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{title}</h1>{content}</body></html>"
    )
    return HTMLResponse(document, status, {**_HEADERS, "Content-Security-Policy": policy})


def _scopes(scopes: Sequence[str]) -> str:
    return ", ".join(map(_text, scopes)) or "none specified by the server"


def _text(text: str) -> str:
    """Return an untrusted text for a page: truncated, escaped, and without hidden characters."""
    shown = text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
    return escape(printable(shown))
