"""The tokens of operators, which are in no file: the admin token, and tokens of this process."""

import hmac
import secrets
import time
from collections.abc import Callable
from hashlib import sha256

from mcp_tools_proxy.domain.identity import OperatorRight, Principal

OPERATOR = Principal(
    tenant_id=None,
    rights=frozenset(OperatorRight),
    token_log_fields={"token_id": "admin_token"},
)
"""The principal of the admin token: it has every right."""

MAX_LOCAL_TOKENS = 100
"""Tokens of this process that are good at once; one more replaces the oldest."""


class AdminToken:
    """The admin token, which only operators know."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def __repr__(self) -> str:
        return "<AdminToken>"

    def matches(self, presented: str) -> bool:
        """Return whether ``presented`` is the admin token, in constant time."""
        return hmac.compare_digest(self._token, presented.encode())


class LocalTokens:
    """Tokens that this process has made for itself, and forgets: no file and no log has them.

    ``clock`` returns seconds. Only digests are kept.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._issued: dict[bytes, tuple[Principal, float]] = {}

    def issue(self, principal: Principal, ttl_s: float) -> str:
        """Return a new token that proves ``principal`` for so many seconds."""
        token = secrets.token_urlsafe(32)
        while len(self._issued) >= MAX_LOCAL_TOKENS:
            del self._issued[next(iter(self._issued))]
        self._issued[_digest(token)] = (principal, self._clock() + ttl_s)
        return token

    def revoke(self, token: str) -> None:
        """Forget a token, if it is one of ours."""
        self._issued.pop(_digest(token), None)

    def find(self, presented: str) -> Principal | None:
        """Return what a token proves; None if it is none of ours, or its time is over."""
        if not self._issued:
            return None
        digest = _digest(presented)
        principal, until = self._issued.get(digest, (None, 0.0))
        if principal is not None and self._clock() >= until:
            del self._issued[digest]
            return None
        return principal


class OperatorTokens:
    """The tokens of operators that are good whatever ``auth_mode`` is; all belong to no tenant."""

    def __init__(self, admin: AdminToken | None = None, local: LocalTokens | None = None) -> None:
        self.admin = admin
        self.local = LocalTokens() if local is None else local

    def find(self, presented: str) -> Principal | None:
        """Return the principal of a token; None if it is none of these."""
        if self.admin is not None and self.admin.matches(presented):
            return OPERATOR
        return self.local.find(presented)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
