"""The gateway's signing keys, in one PEM file, and the assertions signed with them.

An assertion identifies the caller to one server; it expires after a minute and is invalid
elsewhere.
"""

import asyncio
import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import jwt
import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from jwt.algorithms import get_default_algorithms
from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.storage.file_watch import follow

MAX_FILE_BYTES = 65_536

MIN_RSA_BITS = 2048

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", re.DOTALL)
_THUMBPRINT_PARTS = {"EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x")}
_RSA_PARTS = ("e", "kty", "n")

log = structlog.get_logger()


class InvalidKeyFile(ValueError):
    """The file holds no signing keys; the message is one line without its content."""


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The private key for signing, and all public keys as a JSON Web Key Set."""

    private: Any
    algorithm: str
    kid: str
    published: Mapping[str, object]

    def __repr__(self) -> str:
        return f"<SigningKeys {self.algorithm} kid={self.kid}>"


def parse_signing_keys(content: bytes) -> SigningKeys:
    """Parse a file of PEM keys: the first signs, all are published. Raises InvalidKeyFile.

    Further keys can be public: past and future ones. Each is P-256, Ed25519, or RSA of at least
    2,048 bits.
    """
    if len(content) > MAX_FILE_BYTES:
        raise InvalidKeyFile(f"is over {MAX_FILE_BYTES} bytes")
    blocks = [found for found in _BLOCK.finditer(content) if found[1] != b"EC PARAMETERS"]
    if not blocks or b"PRIVATE KEY" not in blocks[0][1]:
        raise InvalidKeyFile("should begin with a private key in PEM, not encrypted")
    keys = [_load(found[0], is_private=b"PRIVATE KEY" in found[1]) for found in blocks]
    entries = [_published(key) for key in keys]
    private = keys[0]
    return SigningKeys(
        private, str(entries[0]["alg"]), str(entries[0]["kid"]), {"keys": _unique(entries)}
    )


class SigningKeyFile:
    """Holds the keys of ``path``. ``load`` must succeed once; then keep ``run`` running.

    A file that becomes unusable leaves the previous keys in place.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failure: str | None = None
        self._keys: SigningKeys | None = None

    def __repr__(self) -> str:
        return f"<SigningKeyFile {self._keys} failure={self._failure!r}>"

    @property
    def keys(self) -> SigningKeys:
        """The last keys that were read."""
        if self._keys is None:
            raise InvalidKeyFile("was not read yet")
        return self._keys

    def load(self) -> None:
        """Read the keys for the first time. Blocks. Raises InvalidKeyFile."""
        self._keys = self._parse()

    async def run(self) -> None:
        """Watch the file until cancelled; a change is active within a second."""
        await follow(self._path, self._read)

    def state(self) -> Mapping[str, object]:
        """Return the state of the keys, for readiness."""
        return {
            "status": "ok" if self._failure is None else "degraded",
            "failure": self._failure,
        }

    async def _read(self) -> bool:
        """Read the file; return False if it should be read again without a change."""
        failure, retry = await asyncio.to_thread(self._parse_again)
        if failure is not None and failure != self._failure:
            log.error("signing_keys.failed", reason=failure)
        self._failure = failure
        return not retry

    def _parse_again(self) -> tuple[str | None, bool]:
        """Read the keys; return the failure, if any, and whether to retry without a change."""
        try:
            keys = self._parse()
        except InvalidKeyFile as error:
            return str(error), isinstance(error.__cause__, OSError)
        if self._keys is None or keys.published != self._keys.published:
            log.info("signing_keys.loaded", kid=keys.kid)
        self._keys = keys
        return None, False

    def _parse(self) -> SigningKeys:
        try:
            with self._path.open("rb") as file:
                return parse_signing_keys(file.read(MAX_FILE_BYTES + 1))
        except OSError as error:
            raise InvalidKeyFile(f"cannot be read: {error.strerror}") from error


def _load(block: bytes, *, is_private: bool) -> Any:
    try:
        return load_pem_private_key(block, None) if is_private else load_pem_public_key(block)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidKeyFile("holds a PEM block that is not a key, or is encrypted") from None


def _published(key: Any) -> dict[str, object]:
    public = key.public_key() if hasattr(key, "public_key") else key
    algorithm = _algorithm_of(key)
    entry = get_default_algorithms()[algorithm].to_jwk(public, as_dict=True)
    names = _THUMBPRINT_PARTS.get(str(entry["kty"]), _RSA_PARTS)
    shown: dict[str, object] = {
        name: entry[name] for name in ("kty", "crv", "n", "e", "x", "y") if name in entry
    }
    return {**shown, "kid": _thumbprint(entry, names), "alg": algorithm, "use": "sig"}


def _algorithm_of(key: Any) -> str:
    match key:
        case EllipticCurvePrivateKey() | EllipticCurvePublicKey() if isinstance(
            key.curve, SECP256R1
        ):
            return "ES256"
        case Ed25519PrivateKey() | Ed25519PublicKey():
            return "EdDSA"
        case RSAPrivateKey() | RSAPublicKey() if key.key_size >= MIN_RSA_BITS:
            return "RS256"
    raise InvalidKeyFile(
        f"holds a key of an unsupported kind; use P-256, Ed25519, or RSA of {MIN_RSA_BITS} bits "
        "or more"
    )


def _thumbprint(entry: Mapping[str, object], names: tuple[str, ...]) -> str:
    """Return the RFC 7638 thumbprint, which gives a key the same ``kid`` in every file."""
    digest = hashlib.sha256(to_json({name: entry[name] for name in names})).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def _unique(entries: list[dict[str, object]]) -> list[dict[str, object]]:
    return list({entry["kid"]: entry for entry in entries}.values())


LIFETIME_S = 60


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
        """Return a new token. The caller needs a tenant and a user; ``agent`` is optional."""
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
