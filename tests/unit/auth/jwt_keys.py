"""A JwtVerifier with settable keys and clock."""

import time
from collections.abc import Mapping

from mcp_tools_proxy.auth.claims import ALGORITHMS, ClaimNames
from mcp_tools_proxy.auth.jwks import KeySet, parse_key_set
from mcp_tools_proxy.auth.jwt_verifier import JwtRules, JwtVerifier
from tests.support.signing import (
    AUDIENCE,
    ISSUER,
    SigningKey,
    key_set,
    make_key,
)
from tests.support.virtual_time import ManualClock

KEY = make_key("RS256")
OTHER = make_key("RS256", "other")


class Keys:
    """A source of keys; a refresh replaces them with ``next``."""

    def __init__(self, *keys: SigningKey) -> None:
        self.keys = keys_of(*keys)
        self.next: KeySet | None = None
        self.refreshes = 0

    async def load(self) -> None:
        return

    async def run(self) -> None:
        return

    async def refresh(self) -> None:
        self.refreshes += 1
        self.keys = self.next or self.keys

    def state(self) -> Mapping[str, object]:
        return {}


def current_clock() -> ManualClock:
    return ManualClock(time.time())  # noqa: TID251 - tokens are made by this clock


def keys_of(*keys: SigningKey) -> KeySet:
    return parse_key_set(key_set(*keys), ALGORITHMS)


def verifier_of(
    source: Keys | None = None,
    *,
    algorithms: tuple[str, ...] = ALGORITHMS,
    clock: ManualClock | None = None,
) -> JwtVerifier:
    rules = JwtRules(
        issuer=ISSUER,
        audiences=(AUDIENCE, "another"),
        algorithms=algorithms,
        leeway_s=10,
        claims=ClaimNames(),
    )
    return JwtVerifier(source or Keys(KEY), rules, clock=clock or current_clock())
