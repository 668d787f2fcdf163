"""A JSON Web Key Set as the keys that tokens may be checked with.

The key decides the algorithm, never the token: a key is found only under the algorithms that are
its own, so a token cannot have an RSA key taken for a shared secret.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError
from pydantic_core import from_json

from mcp_tools_proxy.policy.jwt_algorithms import ALGORITHMS

MIN_RSA_BITS = 2048

MAX_KEYS = 100
"""A key set of more is none."""

_PUBLIC_PARTS = frozenset({"kty", "crv", "n", "e", "x", "y"})
_RSA = ALGORITHMS[:6]
_CURVES = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",), "Ed25519": ("EdDSA",)}


class InvalidJwks(Exception):
    """What was read is no JSON Web Key Set; the message is one line without its content."""


@dataclass(frozen=True, slots=True)
class KeySet:
    """The usable keys by (kid, algorithm); ``unusable`` counts those that were left out."""

    by_kid: Mapping[tuple[str | None, str], PyJWK] = field(default_factory=dict)
    count: int = 0
    unusable: int = 0

    def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """Give the key for a token's header.

        A token without a ``kid`` gets one only where a single key is for its algorithm.
        """
        if kid is not None:
            return self.by_kid.get((kid, algorithm))
        fitting = [key for (_, own), key in self.by_kid.items() if own == algorithm]
        return fitting[0] if len(fitting) == 1 else None


def state_of(keys: KeySet, *, source: str, failure: str | None) -> Mapping[str, object]:
    """Tell how keys from a ``source`` are, for readiness; ``failure`` is why it was no use last."""
    return {
        "status": "degraded" if failure or not keys.count else "ok",
        "keys": keys.count,
        "unusable": keys.unusable,
        "source": source,
        "failure": failure,
    }


def parse_key_set(data: bytes, allowed: Collection[str]) -> KeySet:
    """Read a key set: public signing keys for ``allowed`` algorithms, the others are left out.

    Raises InvalidJwks.
    """
    try:
        content = from_json(data)
    except ValueError:
        raise InvalidJwks("is not JSON") from None
    keys = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(keys, list):
        raise InvalidJwks("is not a JSON Web Key Set")
    if len(keys) > MAX_KEYS:
        raise InvalidJwks(f"has {len(keys)} keys, the limit is {MAX_KEYS}")
    found: dict[tuple[str | None, str], PyJWK] = {}
    usable = 0
    for entry in keys:
        made = _keys_of(entry, allowed)
        fresh = {pair: key for pair, key in made.items() if pair not in found}
        found |= fresh
        usable += bool(fresh)
    return KeySet(found, usable, len(keys) - usable)


def _keys_of(entry: object, allowed: Collection[str]) -> Mapping[tuple[str | None, str], PyJWK]:
    """Give one entry's key under each algorithm that it is for; nothing when it is unusable."""
    if not isinstance(entry, dict):
        return {}
    kid = entry.get("kid")
    if not isinstance(kid, str | None) or not _is_for_signatures(entry):
        return {}
    public = {name: part for name, part in entry.items() if name in _PUBLIC_PARTS}
    made: dict[tuple[str | None, str], PyJWK] = {}
    for algorithm in _algorithms_of(entry):
        if algorithm not in allowed:
            continue
        key = _key(public, algorithm)
        if key is not None:
            made[kid, algorithm] = key
    return made


def _is_for_signatures(entry: Mapping[str, object]) -> bool:
    operations = entry.get("key_ops")
    return entry.get("use", "sig") == "sig" and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )


def _algorithms_of(entry: Mapping[str, object]) -> Sequence[str]:
    """Name the algorithms that the kind of key is for, or the one of them that it says."""
    kind, curve = entry.get("kty"), entry.get("crv")
    own: Sequence[str] = ()
    if kind == "RSA":
        own = _RSA
    elif kind in ("EC", "OKP") and isinstance(curve, str):
        own = _CURVES.get(curve, ())
    said = entry.get("alg")
    return own if said is None else tuple(one for one in own if one == said)


def _key(public: Mapping[str, object], algorithm: str) -> PyJWK | None:
    try:
        key = PyJWK(dict(public), algorithm)
    except (PyJWTError, ValueError, TypeError, KeyError):  # ValueError: cryptography's own
        return None
    if isinstance(key.key, RSAPublicKey) and key.key.key_size < MIN_RSA_BITS:
        return None
    return key
