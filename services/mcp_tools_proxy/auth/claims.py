"""Signature algorithms of JWTs, and the principal of verified claims."""

import json
import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from hashlib import sha256

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.wire.identifiers import DOCUMENTS_RULE, document_ids, is_identifier

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Public-key algorithms only: with a shared secret, every holder could issue tokens."""


Claims = Mapping[str, object]


_OF_ONE_TOKEN = frozenset(
    ("exp", "iat", "nbf", "jti", "at_hash", "c_hash", "uti", "aio", "rh")
)  # the last three are Microsoft Entra's
"""Claims that differ between the tokens of one sign-in, and grant nothing."""


class InvalidClaims(Exception):
    """The claims are not acceptable; the message is one line that names a claim without values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNames:
    """Names of the claims for tenant, user, roles and agents.

    A dotted name that is not a claim is a path: ``realm_access.roles`` is ``roles`` in
    ``realm_access``. With ``user`` None, tokens name no user. ``documents`` limits the documents of
    a token. ``operator`` lists an operator's rights, and the role ``admin_role`` grants PRESETS.
    Any of these three can be None.
    """

    tenant: str = "tenant_id"
    user: str | None = "sub"
    roles: str = "roles"
    agents: str = "agents"
    documents: str | None = None
    operator: str | None = None
    admin_role: str | None = None


def claims_digest(claims: Claims) -> str:
    """Return the SHA-256 of the claims, equal for all tokens of one sign-in.

    All claims count, not only roles and documents: an issuer can derive permissions on a server
    from any of them, such as ``scope``.
    """
    counted = {name: claims[name] for name in claims if name not in _OF_ONE_TOKEN}
    return sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()


def check_times(claims: Claims, now: float, leeway_s: float) -> float:
    """Check ``exp``, ``nbf`` and ``iat``; return the expiry with leeway, in seconds since 1970.

    Raises InvalidClaims for a token that has expired, never expires, or is not valid yet.
    """
    expires = _time(claims, "exp")
    if expires is None:
        raise InvalidClaims("the token has no exp; get one that expires")
    if now >= expires + leeway_s:
        raise InvalidClaims("the token has expired; get a new one")
    for name in ("nbf", "iat"):
        starts = _time(claims, name)
        if starts is not None and starts > now + leeway_s:
            raise InvalidClaims(
                f"the token is not valid yet ({name}); wait, or check that both clocks are right"
            )
    return expires + leeway_s


def principal_of(claims: Claims, names: ClaimNames) -> Principal:
    """Return the principal of verified claims.

    A token without the claim of agents is valid for any agent, and without that of documents for
    all. Raises InvalidClaims for a claim of an unexpected type, and for a token with neither a
    tenant nor a right.
    """
    roles = _strings(claims, names.roles, split=True) or ()
    agents = _strings(claims, names.agents, split=False)
    rights = _rights(claims, names, roles)
    tenant_id = _identifier(claims, names.tenant)
    if tenant_id is None and not rights:
        raise InvalidClaims(
            f"the token lacks the claim {names.tenant}, which names the tenant; get one that has it"
        )
    return Principal(
        tenant_id=tenant_id,
        user_id=None if names.user is None else _identifier(claims, names.user),
        roles=roles,
        agents=None if agents is None else frozenset(agents),
        documents=_documents(claims, names.documents),
        rights=rights,
    )


def _documents(claims: Claims, name: str | None) -> frozenset[str] | None:
    ids = None if name is None else _strings(claims, name, split=False)
    if ids is None:
        return None
    try:
        return document_ids(ids)
    except ValueError:
        raise InvalidClaims(f"the token's {name} {DOCUMENTS_RULE}") from None


def _rights(claims: Claims, names: ClaimNames, roles: Collection[str]) -> frozenset[OperatorRight]:
    """Return an operator's rights; unknown words, as of another product, are skipped."""
    words: set[str] = set()
    if names.operator is not None:
        words.update(_strings(claims, names.operator, split=True) or ())
    if names.admin_role is not None and names.admin_role in roles:
        words.add(OperatorRight.PRESETS)
    return frozenset(right for right in OperatorRight if right in words)


_ABSENT = object()


def _find(claims: Claims, name: str) -> object:
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return _ABSENT
        found = found[part]
    return found


def _identifier(claims: Claims, name: str) -> str | None:
    value = _find(claims, name)
    if value is _ABSENT or value is None:
        return None
    if not isinstance(value, str) or not is_identifier(value):
        raise InvalidClaims(
            f"the token's {name} should be 1-256 characters without control characters"
        )
    return value


def _strings(claims: Claims, name: str, *, split: bool) -> tuple[str, ...] | None:
    """Return a claim that is a list of strings, None if it is absent.

    A single string is a list of one; with ``split`` it is split at blanks, like ``scope``.
    """
    value = _find(claims, name)
    if value is _ABSENT:
        return None
    if isinstance(value, str):
        return tuple(value.split()) if split else (value,)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidClaims(f"the token's {name} should be a list of strings")
    return tuple(value)


def _time(claims: Claims, name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            if math.isfinite(value):
                return float(value)
    raise InvalidClaims(f"the token's {name} should be a number of seconds")
