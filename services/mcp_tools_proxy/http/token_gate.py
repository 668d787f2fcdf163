"""Checks the token of every request before its body, query and other headers are read."""

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_tools_proxy.auth.authenticator import Authenticator, bearer_token
from mcp_tools_proxy.auth.caller_resolver import PRINCIPAL, read_authorization, read_headers
from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError, Unauthenticated
from mcp_tools_proxy.http.request_headers import trace_context_from, trace_id_from
from mcp_tools_proxy.http.request_refusals import CONSOLE_PATH, RequestRefusals
from mcp_tools_proxy.telemetry.spans import TRACE_ID, Tracer

OPEN_PATHS = frozenset({"/health", "/health/ready", "/metrics", "/.well-known/jwks.json"})
"""Routes of probes, which send no token and any Host; they reveal nothing about tenants."""

_OPEN_PAGES = OPEN_PATHS | {"/", "/openapi.json", CONSOLE_PATH}
_OPEN_FOLDERS = ("/.well-known/", "/oauth/", f"{CONSOLE_PATH}/")

Answer = Callable[[Scope, ProxyError, str], Response]
"""Builds the response to a refused request from its scope, error and trace id."""


class TokenGate:
    """ASGI middleware that passes requests with a valid token, and requests to open paths.

    The body of a refused request is not read: parsing bodies of 1 MiB without a token delayed other
    callers by 394 ms. The console and the sign-in pages are open paths and check their sessions and
    forms. The principal is stored in the scope under PRINCIPAL.

    Every token is checked, regardless of the number of invalid ones from its address: behind a
    proxy all callers can share one address, and a valid token must pass.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        refusals: RequestRefusals,
        tracer: Tracer,
        answer: Answer,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._refusals = refusals
        self._tracer = tracer
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http" or is_open_path(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            authorization = read_authorization(scope["headers"])
            scope[PRINCIPAL] = await self._authenticator.authenticate(authorization)
        except ProxyError as error:
            await self._refuse(scope, error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refuse(self, scope: Scope, error: ProxyError) -> Response:
        """Build the response and record the refusal; its span lacks the sender's path."""
        headers, method = Headers(scope=scope), scope["method"]
        attributes = {"http.request.method": method}
        with self._tracer.start_request(method, attributes, trace_context_from(headers)) as span:
            trace_id = trace_id_from(None, headers)
            self._refusals.record_refusal(scope, error, trace_id)
            response = self._answer(scope, error, trace_id)
            span.set({"http.response.status_code": response.status_code, TRACE_ID: trace_id})
        return response


def is_open_path(path: str) -> bool:
    """Return whether a path is served without a bearer token."""
    return path in _OPEN_PAGES or path.startswith(_OPEN_FOLDERS)


class OperatorCheck:
    """Recognises operators without refusing other callers: probes send no token, or an expired one.

    If callers need no token, each counts as an operator.
    """

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def __call__(self, scope: Scope) -> bool:
        """Return whether the sender of a request is an operator."""
        if not self._authenticator.needs_token:
            return True
        try:
            authorization, _ = read_headers(scope["headers"])
        except InvalidRequest:
            return False
        if bearer_token(authorization) is None:
            return False
        try:
            return await self._authenticator.is_operator(authorization)
        except Unauthenticated:
            return False
