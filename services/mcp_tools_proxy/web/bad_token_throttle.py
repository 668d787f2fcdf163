"""Refuses unknown tokens of an address that sent many bad ones, before any other work is done."""

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_tools_proxy.auth.authenticator import Authenticator, bearer_token
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.web.request_refusals import RequestRefusals
from mcp_tools_proxy.web.trace_headers import trace_id_from

OPEN_PATHS = frozenset({"/health", "/health/ready", "/metrics", "/.well-known/jwks.json"})
"""Routes of probes, which send no token and any Host; their responses reveal nothing of tenants."""

Answer = Callable[[Scope, Unauthenticated, str], Response]
"""Builds the response to a refused request; the string is its trace_id."""

_AUTHORIZATION = b"authorization"


class BadTokenThrottle:
    """Passes every request while no address is over its limit of refused tokens.

    For an address over its limit, a token that is known to be valid still passes: that is one
    look-up. A JWT with plausible claims is verified, as often as BadTokenCounts allows. All
    others get 401 with ``Retry-After``, without reading the body or checking a signature.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        refusals: RequestRefusals,
        answer: Answer,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._refusals = refusals
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer UNAUTHENTICATED."""
        error = None
        if self._refusals.tokens.any_over_limit and scope["type"] == "http":
            error = None if scope["path"] in OPEN_PATHS else await self._refusal(scope)
        if error is None:
            await self._app(scope, receive, send)
            return
        trace_id = trace_id_from(None, Headers(scope=scope))
        await self._answer(scope, error, trace_id)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Unauthenticated | None:
        """Return the error that refuses the request, None if it may pass."""
        values = [value for name, value in scope["headers"] if name == _AUTHORIZATION]
        authorization = values[0].strip(b" \t").decode("latin-1") if len(values) == 1 else None
        token = bearer_token(authorization)
        if token is None:
            return None  # no token to check here: the authenticator decides
        peer = self._refusals.peers.address_of(scope)
        wait_s = self._refusals.tokens.wait_s(peer)
        if (
            wait_s is None
            or self._authenticator.is_known_valid(token)
            or await self._is_good(token, peer)
        ):
            return None
        error = Unauthenticated(
            "too many invalid tokens came from this address; wait, then send a valid one",
            token_refused=True,
            retry_after_s=wait_s,
        )
        self._refusals.record_unchecked(error, peer)
        return error

    async def _is_good(self, token: str, peer: str) -> bool:
        """Verify a token that is unknown but plausible, as often as BadTokenCounts allows."""
        if not (
            self._authenticator.is_plausible(token) and self._refusals.tokens.consume_check(peer)
        ):
            return False
        try:
            await self._authenticator.verify(token)
        except Unauthenticated:
            return False
        return True
