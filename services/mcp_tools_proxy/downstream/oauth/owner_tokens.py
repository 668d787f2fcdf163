"""The current token of one owner: got by one request at a time, and renewed before it ends."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable

from mcp_tools_proxy.domain.identity import CallerJwt
from mcp_tools_proxy.domain.kept_errors import without_frames
from mcp_tools_proxy.downstream.oauth.oauth_web import IssuerUnavailable, OAuthRefused
from mcp_tools_proxy.downstream.oauth.stored_logins import LoginNeeded
from mcp_tools_proxy.downstream.oauth.token_endpoint import MARGIN_S, AccessToken

LOGIN_FRESH_S = 10.0
"""A token of a stored login is looked up again after so long: it may be renewed elsewhere, or gone
by a logout."""

RETRY_S = 5.0
"""An issuer that is down is tried again after so long, while the last token has not ended."""

GetToken = Callable[[str | None], Awaitable[AccessToken]]
"""Gets another token than this one, which the server refused; None is for any.

Raises IssuerUnavailable, OAuthRefused, LoginNeeded.
"""


class OwnerTokens:
    """Keeps the token of one owner in memory.

    ``now`` returns seconds since 1970, in which issuers say when a token ends; ``clock`` those that
    have passed.
    """

    def __init__(
        self,
        get: GetToken,
        now: Callable[[], float],
        *,
        is_stored: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._get = get
        self._now = now
        self._clock = clock
        self.jwt: CallerJwt | None = None
        """The last JWT that proved the owner, where it is exchanged for tokens."""
        self.scopes: tuple[str, ...] = ()
        """Those of the last token."""
        self._fresh_s = LOGIN_FRESH_S if is_stored else math.inf
        self._token: AccessToken | None = None
        self._until = self._ends = 0.0
        self._refused: str | None = None
        self._lock = asyncio.Lock()
        self._attempts = 0
        self._failure: Exception | None = None
        self.used_at = clock()

    def __repr__(self) -> str:
        return f"<OwnerTokens has_token={self._token is not None}>"

    async def current(self) -> AccessToken:
        """Return a token that is good for a while. Raises as GetToken.

        While the issuer is down the last one is used until it ends, unless the server refused it.
        Those who waited for an attempt that failed fail with it, else each would wait for its own.
        """
        self.used_at = self._clock()
        if self._token is not None and self.used_at < self._until:
            return self._token
        seen = self._attempts
        async with self._lock:
            if self._token is not None and self._clock() < self._until:
                return self._token
            if self._attempts > seen and self._failure is not None:
                raise self._failure
            return await self._renew()

    def drop(self, access: str) -> None:
        """Forget a token that the server refused, unless another one is in its place already."""
        if self._token is None or self._token.access == access:
            self._token, self._refused = None, access

    async def _renew(self) -> AccessToken:
        last, self._token = self._token, None
        begun = self._clock()
        try:
            token = await self._get(self._refused)
        except IssuerUnavailable as error:
            if last is None or self._clock() >= self._ends:
                self._failure = without_frames(error)
                raise
            self._failure, self._token = None, last
            self._until = min(self._clock() + RETRY_S, self._ends)
            return last
        except (OAuthRefused, LoginNeeded) as error:
            self._failure = without_frames(error)
            raise
        else:
            self._failure = None
        finally:
            self._attempts += 1
        self._token, self.scopes = token, token.scopes
        life_s = math.inf if token.expires_at is None else token.expires_at - self._now()
        self._ends = begun + life_s
        self._until = begun + min(_good_for_s(life_s), self._fresh_s)
        return token


def _good_for_s(life_s: float) -> float:
    """Return for how many seconds a new token is used; a short-lived one for half its life."""
    return life_s - min(MARGIN_S, life_s / 2)
