"""Parses a JSON Web Key Set into the keys that verify tokens, and watches one in a file.

The key decides the algorithm, never the token: a key is found only for its algorithms. Otherwise an
attacker could sign a token with HMAC and the public RSA key as the shared secret.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path

import structlog
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError
from pydantic_core import from_json

from mcp_tools_proxy.auth.claims import ALGORITHMS
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.storage.file_watch import follow

MIN_RSA_BITS = 2048

MAX_KEYS = 100
"""A larger key set is refused as a whole."""

_PUBLIC_PARTS = frozenset({"kty", "crv", "n", "e", "x", "y"})
_RSA = ALGORITHMS[:6]
_CURVES = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",), "Ed25519": ("EdDSA",)}


class InvalidJwks(Exception):
    """The data is not a JSON Web Key Set; the message is one line without its content."""


@dataclass(frozen=True, slots=True)
class KeySet:
    """The usable keys by (kid, algorithm); ``count`` and ``unusable`` count the set's entries."""

    by_kid: Mapping[tuple[str | None, str], PyJWK] = field(default_factory=dict)
    count: int = 0
    unusable: int = 0

    def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """Return the key for a token's header, or None.

        A token without a ``kid`` gets a key only if a single key has its algorithm.
        """
        if kid is not None:
            return self.by_kid.get((kid, algorithm))
        fitting = [key for (_, own), key in self.by_kid.items() if own == algorithm]
        return fitting[0] if len(fitting) == 1 else None


def state_of(keys: KeySet, *, source: str, failure: str | None) -> Mapping[str, object]:
    """Build the readiness check of keys; ``failure`` is that of the last read."""
    return {
        "status": "degraded" if failure or not keys.count else "ok",
        "keys": keys.count,
        "unusable": keys.unusable,
        "source": source,
        "failure": failure,
    }


def parse_key_set(data: bytes, allowed: Collection[str]) -> KeySet:
    """Parse a key set; only signing keys for ``allowed`` algorithms are kept, as public keys.

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
        parsed = _keys_of(entry, allowed)
        new = {pair: key for pair, key in parsed.items() if pair not in found}
        found |= new
        usable += bool(new)
    return KeySet(found, usable, len(keys) - usable)


def _keys_of(entry: object, allowed: Collection[str]) -> Mapping[tuple[str | None, str], PyJWK]:
    if not isinstance(entry, dict):
        return {}
    kid = entry.get("kid")
    if not isinstance(kid, str | None) or not _is_for_signatures(entry):
        return {}
    public = {name: part for name, part in entry.items() if name in _PUBLIC_PARTS}
    found: dict[tuple[str | None, str], PyJWK] = {}
    for algorithm in _algorithms_of(entry):
        if algorithm not in allowed:
            continue
        key = _key(public, algorithm)
        if key is not None:
            found[kid, algorithm] = key
    return found


def _is_for_signatures(entry: Mapping[str, object]) -> bool:
    operations = entry.get("key_ops")
    return entry.get("use", "sig") == "sig" and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )


def _algorithms_of(entry: Mapping[str, object]) -> Sequence[str]:
    """Return the algorithms of the key's type, or the one that ``alg`` names."""
    kind, curve = entry.get("kty"), entry.get("crv")
    own: Sequence[str] = ()
    if kind == "RSA":
        own = _RSA
    elif kind in ("EC", "OKP") and isinstance(curve, str):
        own = _CURVES.get(curve, ())
    named = entry.get("alg")
    return own if named is None else tuple(one for one in own if one == named)


def _key(public: Mapping[str, object], algorithm: str) -> PyJWK | None:
    try:
        key = PyJWK(dict(public), algorithm)
    except (PyJWTError, ValueError, TypeError, KeyError):  # ValueError: from cryptography
        return None
    if isinstance(key.key, RSAPublicKey) and key.key.key_size < MIN_RSA_BITS:
        return None
    return key


log = structlog.get_logger()


class JwksFile:
    """Holds the keys of ``path``. Call ``load`` once, then keep ``run`` running.

    A file that is not a key set leaves the previous keys in place; if it is missing or cannot be
    read, all keys are removed.
    """

    def __init__(self, path: Path, allowed: Collection[str]) -> None:
        self._path = path
        self._allowed = allowed
        self._failure: str | None = None
        self.keys = KeySet()

    def __repr__(self) -> str:
        return f"<JwksFile {self.keys.count} keys, failure={self._failure!r}>"

    async def load(self) -> None:
        """Read the keys of the file."""
        await self._read()

    async def run(self) -> None:
        """Watch the file until cancelled; a change is active within a second."""
        await follow(self._path, self._read)

    async def refresh(self) -> None:
        """Do nothing, as the file is watched."""

    def state(self) -> Mapping[str, object]:
        """Return the state of the keys, for readiness."""
        return state_of(self.keys, source="file", failure=self._failure)

    async def _read(self) -> bool:
        """Read the file; return False if it should be read again without a change."""
        try:
            keys = parse_key_set(await asyncio.to_thread(self._path.read_bytes), self._allowed)
        except InvalidJwks as error:
            self._apply(self.keys, str(error))
        except OSError as error:
            self._apply(KeySet(), f"cannot be read: {error.strerror}")
            return isinstance(error, FileNotFoundError)
        else:
            self._apply(keys, None)
        return True

    def _apply(self, keys: KeySet, failure: str | None) -> None:
        if failure is not None and failure != self._failure:
            log.error("jwks.failed", source=str(self._path), reason=failure)
        self._failure = failure
        if keys.by_kid.keys() != self.keys.by_kid.keys():
            log.info("jwks.loaded", keys=keys.count, unusable=keys.unusable)
        self.keys = keys
