"""JSON Web Tokens, checked against the keys of their issuer."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import jwt
from jwt.exceptions import (
    InvalidAudienceError,
    InvalidIssuerError,
    MissingRequiredClaimError,
    PyJWTError,
)

from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.principal import Principal
from mcp_tools_proxy.identity.claims import ClaimNames, Unacceptable, check_times, principal_of
from mcp_tools_proxy.identity.keys import KeySet

MAX_TOKEN_CHARS = 16 * 1024
"""A longer token is not looked at."""

REMEMBERED_S = 60.0
"""How long a checked token is believed without another check, in seconds."""

MAX_REMEMBERED = 4096
"""How many checked tokens are remembered."""


class KeySource(Protocol):
    """Holds the issuer's keys; whoever changes them puts another KeySet in their place."""

    @property
    def keys(self) -> KeySet:
        """The keys now."""
        ...

    async def load(self) -> None:
        """Read the keys if that is quick."""
        ...

    async def run(self) -> None:
        """Follow the keys until cancelled."""
        ...

    async def look_again(self) -> None:
        """Look for a key that is not here."""
        ...

    def state(self) -> Mapping[str, object]:
        """Tell how the keys are, for readiness."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtRules:
    """What a token has to be; ``leeway_s`` is how far the clocks may be apart."""

    issuer: str
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...]
    leeway_s: float
    claims: ClaimNames


@dataclass(frozen=True, slots=True)
class _Known:
    principal: Principal
    until: float  # seconds since 1970


def _now() -> float:
    return datetime.now(UTC).timestamp()


class SignedTokens:
    """Knows whom a JWT stands for; ``clock`` gives seconds since 1970.

    The algorithm has to be allowed and to be the key's own; keys that a token brings along or
    points to (``jwk``, ``jku``, ``x5c``, ``x5u``) are not looked at. A checked token is remembered
    by its digest, for a short time and while the keys stay the same.
    """

    def __init__(
        self, source: KeySource, rules: JwtRules, *, clock: Callable[[], float] = _now
    ) -> None:
        self._source = source
        self._rules = rules
        self._clock = clock
        self._known: dict[bytes, _Known] = {}
        self._known_by = source.keys

    def __repr__(self) -> str:
        return f"<SignedTokens {len(self._known)} remembered, {self._source!r}>"

    async def load(self) -> None:
        """Read the keys if that is quick."""
        await self._source.load()

    async def run(self) -> None:
        """Follow the keys until cancelled."""
        await self._source.run()

    def state(self) -> Mapping[str, object]:
        """Tell how the keys are, for readiness."""
        return self._source.state()

    async def verify(self, token: str) -> Principal:
        """Give whom the token stands for. Raises Unauthenticated, naming nothing of it."""
        if len(token) > MAX_TOKEN_CHARS:
            raise _refused("the token is too long")
        digest = hashlib.sha256(token.encode()).digest()
        if self._known_by is not self._source.keys:
            self._known_by = self._source.keys
            self._known.clear()
        known = self._known.get(digest)
        if known is not None and self._clock() < known.until:
            return known.principal
        try:
            found = await self._check(token)
        except Unacceptable as error:
            raise _refused(str(error)) from None
        self._remember(digest, found)
        return found.principal

    async def _check(self, token: str) -> _Known:
        """Check all of it. Raises Unauthenticated, Unacceptable."""
        key = await self._key(token)
        claims = _decode(token, key, self._rules)
        now = self._clock()
        good_until = check_times(claims, now, self._rules.leeway_s)
        principal = principal_of(claims, self._rules.claims)
        return _Known(principal, min(good_until, now + REMEMBERED_S))

    async def _key(self, token: str) -> jwt.PyJWK:
        try:
            header = jwt.get_unverified_header(token)
        except PyJWTError:
            raise Unacceptable("the token is no JWT") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._rules.algorithms:
            raise Unacceptable("the token is signed in a way that is not allowed")
        if "crit" in header or "b64" in header:
            raise Unacceptable("the token asks for an extension that is not known")
        key = self._source.keys.find(kid, algorithm)
        if key is None:
            await self._source.look_again()
            key = self._source.keys.find(kid, algorithm)
        if key is None and not self._source.keys.count:
            raise Unauthenticated("the keys that tokens are checked with are not there; try later")
        if key is None:
            raise Unacceptable("the token is signed with a key that is not the issuer's")
        return key

    def _remember(self, digest: bytes, found: _Known) -> None:
        self._known.pop(digest, None)
        if len(self._known) >= MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[digest] = found


def _decode(token: str, key: jwt.PyJWK, rules: JwtRules) -> Mapping[str, object]:
    try:
        claims: Mapping[str, object] = jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            issuer=rules.issuer,
            audience=rules.audiences,
            options={
                "require": ["exp", "iss", "aud"],
                "verify_exp": False,  # check_times does, by the clock it is given
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except InvalidAudienceError:
        raise Unacceptable("the token is for another service (aud)") from None
    except InvalidIssuerError:
        raise Unacceptable("the token is of another issuer (iss)") from None
    except MissingRequiredClaimError as error:
        raise Unacceptable(f"the token has no {error.claim}") from None
    except PyJWTError:
        raise Unacceptable("the token is not good; ask for a new one") from None
    return claims


def _refused(message: str) -> Unauthenticated:
    return Unauthenticated(message, token_refused=True)
