"""Tokens of operators that are not in a file: the admin token, and tokens of this process."""

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
"""The principal of the admin token, with every right."""

MAX_LOCAL_TOKENS = 100
"""Limit of valid tokens of this process; a further one replaces the oldest."""


class AdminToken:
    """The admin token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def __repr__(self) -> str:
        return "<AdminToken>"

    def matches(self, presented: str) -> bool:
        """Return whether ``presented`` is the admin token, in constant time."""
        return hmac.compare_digest(self._token, presented.encode())


class LocalTokens:
    """Temporary tokens that this process issues; they are not in files or logs.

    ``clock`` returns seconds. Only digests are stored.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._issued: dict[bytes, tuple[Principal, float]] = {}

    def issue(self, principal: Principal, ttl_s: float) -> str:
        """Return a new token that proves ``principal`` for ``ttl_s`` seconds."""
        token = secrets.token_urlsafe(32)
        while len(self._issued) >= MAX_LOCAL_TOKENS:
            del self._issued[next(iter(self._issued))]
        self._issued[_digest(token)] = (principal, self._clock() + ttl_s)
        return token

    def revoke(self, token: str) -> None:
        """Revoke a token, if it was issued here."""
        self._issued.pop(_digest(token), None)

    def find(self, presented: str) -> Principal | None:
        """Return the principal of a token; None if it is unknown or expired."""
        if not self._issued:
            return None
        digest = _digest(presented)
        principal, until = self._issued.get(digest, (None, 0.0))
        if principal is not None and self._clock() >= until:
            del self._issued[digest]
            return None
        return principal


class OperatorTokens:
    """Tokens of operators, valid in any ``auth_mode``, without a tenant."""

    def __init__(self, admin: AdminToken | None = None, local: LocalTokens | None = None) -> None:
        self.admin = admin
        self.local = LocalTokens() if local is None else local

    def find(self, presented: str) -> Principal | None:
        """Return the principal of a token, or None."""
        if self.admin is not None and self.admin.matches(presented):
            return OPERATOR
        return self.local.find(presented)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
