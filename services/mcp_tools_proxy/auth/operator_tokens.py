"""Tokens of operators that are not in a file: the admin token, and those of console guests."""

import hmac
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256

from mcp_tools_proxy.domain.identity import OperatorRight, Principal

OPERATOR = Principal(
    tenant_id=None,
    rights=frozenset(OperatorRight),
    token_log_fields={"token_id": "admin_token"},
)
"""The principal of the admin token, with every right."""

GUEST = Principal(
    tenant_id=None,
    rights=frozenset(
        {
            OperatorRight.PRESETS,
            OperatorRight.AUDIT,
            OperatorRight.DOCUMENTS,
            OperatorRight.RUN,
        }
    ),
    token_log_fields={"token_id": "console"},
)
"""The principal of users who sign in with a one-time address."""


GUEST_PREFIX = "guest."


class AdminToken:
    """The admin token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def __repr__(self) -> str:
        return "<AdminToken>"

    def matches(self, presented: str) -> bool:
        """Return whether ``presented`` is the admin token, in constant time."""
        return hmac.compare_digest(self._token, presented.encode())


def _now() -> float:
    return datetime.now(UTC).timestamp()


class GuestTokens:
    """Temporary tokens of GUEST, which the console issues and keeps in its sessions.

    They are signed, not stored: each worker process with the same ``key`` accepts them. ``now``
    returns seconds since 1970.
    """

    def __init__(self, key: bytes, now: Callable[[], float] = _now) -> None:
        self._key = key
        self._now = now

    def __repr__(self) -> str:
        return "<GuestTokens>"

    def issue(self, ttl_s: float) -> str:
        """Return a new token that is valid for ``ttl_s`` seconds."""
        signed = f"{GUEST_PREFIX}{secrets.token_urlsafe(32)}.{int(self._now() + ttl_s)}"
        return f"{signed}.{self._digest(signed)}"

    def find(self, presented: str) -> Principal | None:
        """Return GUEST for a valid token; None if it is unknown or expired."""
        if not presented.startswith(GUEST_PREFIX):
            return None
        signed, _, digest = presented.rpartition(".")
        if not hmac.compare_digest(self._digest(signed).encode(), _encoded(digest)):
            return None
        return None if self._now() >= int(signed.rpartition(".")[2]) else GUEST

    def _digest(self, signed: str) -> str:
        return hmac.digest(self._key, b"guest " + _encoded(signed), sha256).hex()


class OperatorTokens:
    """Tokens of operators, valid in any ``auth_mode``, without a tenant."""

    def __init__(self, admin: AdminToken | None = None, guests: GuestTokens | None = None) -> None:
        self.admin = admin
        self.guests = GuestTokens(secrets.token_bytes(32)) if guests is None else guests

    def find(self, presented: str) -> Principal | None:
        """Return the principal of a token, or None."""
        if self.admin is not None and self.admin.matches(presented):
            return OPERATOR
        return self.guests.find(presented)


def _encoded(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")
