"""Refuses unknown tokens of an address that sent many bad ones, before anything else is done."""

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_tools_proxy.auth.authenticator import Authenticator, bearer_token
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.web.request_refusals import Refusals
from mcp_tools_proxy.web.trace_headers import trace_id_from

OPEN_PATHS = frozenset({"/health", "/health/ready", "/metrics"})
"""What is asked by machines that know no name of this one; it tells nothing of tenants."""

Answer = Callable[[Scope, Unauthenticated, str], Response]
"""Makes the answer to a refused request; the text is its trace_id."""

_AUTHORIZATION = b"authorization"


class TokenGate:
    """Lets every request through while no address is over its limit of refused tokens.

    Of one that is, a token that is known to be good passes as ever: that is one look-up. Of the
    others a JWT that claims all that it should is checked, as often as RefusedTokens allows; all
    the rest get 401 with ``Retry-After``, neither body nor signature looked at.
    """

    def __init__(
        self, app: ASGIApp, *, authenticator: Authenticator, refusals: Refusals, answer: Answer
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
        """Return what the request is refused with, None for one that may pass."""
        values = [value for name, value in scope["headers"] if name == _AUTHORIZATION]
        authorization = values[0].strip(b" \t").decode("latin-1") if len(values) == 1 else None
        token = bearer_token(authorization)
        if token is None:
            return None  # refused further on, by what it says
        peer = self._refusals.peers.address_of(scope)
        wait_s = self._refusals.tokens.wait_s(peer)
        if (
            wait_s is None
            or self._authenticator.is_known(token)
            or await self._is_good(token, peer)
        ):
            return None
        error = Unauthenticated(
            "too many tokens from this address were refused; wait, then send one that is good",
            token_refused=True,
            retry_after_s=wait_s,
        )
        self._refusals.record_unchecked(error, peer)
        return error

    async def _is_good(self, token: str, peer: str) -> bool:
        """Check a token that may be good though nobody has seen it yet."""
        if not (
            self._authenticator.may_be_good(token) and self._refusals.tokens.consume_check(peer)
        ):
            return False
        try:
            await self._authenticator.verify(token)
        except Unauthenticated:
            return False
        return True
