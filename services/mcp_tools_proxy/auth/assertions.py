"""Signs who calls, for one server: a token that lives a minute, and is of no use elsewhere."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

import jwt

from mcp_tools_proxy.auth.signing_keys import SigningKeyFile
from mcp_tools_proxy.domain.caller import Caller

LIFETIME_S = 60
"""Seconds that an assertion is valid."""


def _now() -> float:
    return datetime.now(UTC).timestamp()


class AssertionSigner:
    """Signs assertions as ``issuer``; ``clock`` returns seconds since 1970."""

    def __init__(
        self, keys: SigningKeyFile, issuer: str, *, clock: Callable[[], float] = _now
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._clock = clock

    def __repr__(self) -> str:
        return f"<AssertionSigner {self._keys}>"

    def sign(self, caller: Caller, audience: str) -> str:
        """Return a new token. The caller has a tenant and a user; ``agent`` is left out if none."""
        now, keys = int(self._clock()), self._keys.keys
        claims = {
            "iss": self._issuer,
            "sub": caller.user_id,
            "aud": audience,
            "jti": uuid4().hex,
            "iat": now,
            "exp": now + LIFETIME_S,
            "tenant_id": caller.tenant_id,
            **({} if caller.agent is None else {"agent": caller.agent}),
        }
        return jwt.encode(claims, keys.private, keys.algorithm, {"kid": keys.kid})
