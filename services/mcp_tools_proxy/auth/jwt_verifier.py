"""Verifies JWTs with the keys of their issuer."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

import jwt
from jwt.exceptions import (
    InvalidAudienceError,
    InvalidIssuerError,
    MissingRequiredClaimError,
    PyJWTError,
)

from mcp_tools_proxy.auth.claims import (
    ClaimNames,
    InvalidClaims,
    check_times,
    claims_digest,
    principal_of,
)
from mcp_tools_proxy.auth.jwks import KeySet
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.wire.text import QUOTE_CHARS

MAX_TOKEN_CHARS = 16 * 1024
"""A longer token is refused unread."""

MAX_REMEMBERED = 4096


class KeySource(Protocol):
    """Source of the issuer's keys. ``keys`` is a new object after each change."""

    @property
    def keys(self) -> KeySet:
        """The current keys."""
        ...

    async def load(self) -> None:
        """Read the keys, unless that needs the network."""
        ...

    async def run(self) -> None:
        """Keep the keys up to date until cancelled."""
        ...

    async def refresh(self) -> None:
        """Update the keys now, because a token names an unknown one."""
        ...

    def state(self) -> Mapping[str, object]:
        """Return the state of the keys, for readiness."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtRules:
    """Rules for tokens; ``leeway_s`` is the allowed difference between clocks, in seconds."""

    issuer: str
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...]
    leeway_s: float
    claims: ClaimNames


@dataclass(frozen=True, slots=True)
class _Verified:
    """A cached token: its principal, its expiry, and the key that verified it."""

    principal: Principal
    until: float  # seconds since 1970
    kid: str | None
    key: jwt.PyJWK


def _now() -> float:
    return datetime.now(UTC).timestamp()


class JwtVerifier:
    """Verifies JWTs; ``clock`` returns seconds since 1970.

    The algorithm must be allowed and must match the key. Keys that a token contains or links to
    (``jwk``, ``jku``, ``x5c``, ``x5u``) are ignored. A verified token is cached by its digest until
    it expires or its key is removed.
    """

    def __init__(
        self, source: KeySource, rules: JwtRules, *, clock: Callable[[], float] = _now
    ) -> None:
        self._source = source
        self._rules = rules
        self._clock = clock
        self._cache: dict[bytes, _Verified] = {}
        self._cache_keys = source.keys

    def __repr__(self) -> str:
        return f"<JwtVerifier {len(self._cache)} remembered, {self._source!r}>"

    @property
    def expiring(self) -> int:
        """0, as JWTs are not stored."""
        return 0

    async def load(self) -> None:
        """Read the keys, unless that needs the network."""
        await self._source.load()

    async def run(self) -> None:
        """Keep the keys up to date until cancelled."""
        await self._source.run()

    def state(self) -> Mapping[str, object]:
        """Return the state of the keys, for readiness."""
        return self._source.state()

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token. Raises Unauthenticated, quoting nothing of the token."""
        if len(token) > MAX_TOKEN_CHARS:
            raise _refused("the token is too long")
        digest = _digest(token)
        known = self._find(digest)
        if known is not None:
            return known.principal
        try:
            found = await self._check(token)
        except InvalidClaims as error:
            raise _refused(str(error)) from None
        self._remember(digest, found)
        return found.principal

    def _find(self, digest: bytes) -> _Verified | None:
        """Return the cached token of a digest; None if it is unknown or expired.

        After a change of the keys, only tokens of removed keys are dropped, since keys are fetched
        every few minutes and each verification is expensive.
        """
        keys = self._source.keys
        if self._cache_keys is not keys:
            self._cache_keys = keys
            self._cache = {it: known for it, known in self._cache.items() if _has_key(keys, known)}
        known = self._cache.get(digest)
        return known if known is not None and self._clock() < known.until else None

    async def _check(self, token: str) -> _Verified:
        kid, key = await self._key(token)
        claims = _decode(token, key, self._rules)
        now = self._clock()
        good_until = check_times(claims, now, self._rules.leeway_s)
        principal = replace(
            principal_of(claims, self._rules.claims),
            token_log_fields=_token_log_fields(claims),
            jwt=(self._rules.issuer, good_until - self._rules.leeway_s),
            jwt_claims=claims_digest(claims),
        )
        return _Verified(principal, good_until, kid, key)

    async def _key(self, token: str) -> tuple[str | None, jwt.PyJWK]:
        try:
            header = jwt.get_unverified_header(token)
        except PyJWTError:
            raise InvalidClaims("the token is not a JWT; send one") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._rules.algorithms:
            raise InvalidClaims(
                "the token's signature algorithm (alg) is not allowed here; get one with another"
            )
        if "crit" in header or "b64" in header:
            raise InvalidClaims(
                "the token requires an extension that is not supported (crit); get one without it"
            )
        key = self._source.keys.find(kid, algorithm)
        if key is None:
            await self._source.refresh()
            key = self._source.keys.find(kid, algorithm)
        if key is None and not self._source.keys.count:
            raise Unauthenticated("the keys to verify tokens could not be loaded; try again later")
        if key is None:
            raise InvalidClaims(
                "the token is signed with a key that is not the issuer's; get a new one"
            )
        return kid, key

    def _remember(self, digest: bytes, found: _Verified) -> None:
        self._cache.pop(digest, None)
        if len(self._cache) >= MAX_REMEMBERED:
            del self._cache[next(iter(self._cache))]
        self._cache[digest] = found


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
                "verify_exp": False,  # check_times uses the injected clock
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except InvalidAudienceError:
        raise InvalidClaims(
            "the token is for another service (aud); get one for this service"
        ) from None
    except InvalidIssuerError:
        raise InvalidClaims(
            "the token is from another issuer (iss); get one from the issuer that is trusted here"
        ) from None
    except MissingRequiredClaimError as error:
        raise InvalidClaims(
            f"the token lacks the claim {error.claim}; get one that has it"
        ) from None
    except PyJWTError:
        raise InvalidClaims("the token is not valid; get a new one") from None
    return claims


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _has_key(keys: KeySet, known: _Verified) -> bool:
    now = keys.find(known.kid, known.key.algorithm_name)
    return now is not None and bool(now.key == known.key.key)


_DIGEST_CHARS = 32


def _token_log_fields(claims: Mapping[str, object]) -> Mapping[str, str]:
    named = {"issuer": claims.get("iss"), "subject": claims.get("sub")}
    return {name: _short(text) for name, text in named.items() if isinstance(text, str)}


def _short(text: str) -> str:
    """Return a text of at most QUOTE_CHARS characters that differs for different texts.

    The fields also identify callers without a user, whose runs are separate.
    """
    if len(text) <= QUOTE_CHARS:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[: QUOTE_CHARS - _DIGEST_CHARS - 1]}~{digest[:_DIGEST_CHARS]}"


def _refused(message: str) -> Unauthenticated:
    return Unauthenticated(message, token_refused=True)
