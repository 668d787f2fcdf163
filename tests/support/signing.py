"""An issuer of JWTs: keys, key sets, and valid and forged tokens."""

import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

ISSUER = "https://issuer.example"
AUDIENCE = "mcp-tools-proxy"

_CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}

Json = dict[str, Any]


@dataclass(frozen=True)
class SigningKey:
    kid: str
    algorithm: str
    private: Any

    def jwk(self, **changes: object) -> Json:
        """Return the public key as a member of a key set; ``...`` omits a part."""
        public = get_default_algorithms()[self.algorithm].to_jwk(
            self.private.public_key(), as_dict=True
        )
        entry = {**public, "kid": self.kid, "alg": self.algorithm, "use": "sig", **changes}
        return {name: value for name, value in entry.items() if value is not ...}

    def pem(self) -> bytes:
        encoded: bytes = self.private.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )
        return encoded

    def sign(self, *, headers: Json | None = None, **claims: object) -> str:
        """Sign a token; ``...`` omits a claim."""
        return jwt.encode(
            claims_of(**claims), self.private, self.algorithm, {"kid": self.kid, **(headers or {})}
        )


def make_key(algorithm: str = "RS256", kid: str = "k1", *, bits: int = 2048) -> SigningKey:
    """Create a key; equal arguments return the same one, because creation can be slow."""
    kind = "RSA" if algorithm[:2] in ("RS", "PS") else algorithm
    return SigningKey(kid, algorithm, _private(kind, kid, bits))


@cache
def _private(kind: str, _kid: str, bits: int) -> Any:
    if kind == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if kind in _CURVES:
        return ec.generate_private_key(_CURVES[kind])
    return rsa.generate_private_key(65537, bits)


def key_set(*keys: SigningKey | Json) -> bytes:
    entries = [key.jwk() if isinstance(key, SigningKey) else key for key in keys]
    return json.dumps({"keys": entries}).encode()


def claims_of(**changes: object) -> Json:
    """Build the claims of a valid token of tenant_1, with the given changes."""
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": int(time.time()) + 600,  # noqa: TID251 - the program under test uses its own clock
        "tenant_id": "tenant_1",
        "sub": "user_1",
        **changes,
    }
    return {name: value for name, value in claims.items() if value is not ...}


def forged(header: Json, *, secret: bytes | None = None, **claims: object) -> str:
    """Forge a token: with an HMAC of ``secret``, or without a signature."""
    text = ".".join(_part(json.dumps(part).encode()) for part in (header, claims_of(**claims)))
    signature = b"" if secret is None else hmac.digest(secret, text.encode(), hashlib.sha256)
    return f"{text}.{_part(signature)}"


def spoilt(token: str) -> list[str]:
    header, payload, signature = token.split(".")
    other = _part(json.dumps(claims_of(tenant_id="rival")).encode())
    return [
        f"{header}.{other}.{signature}",
        f"{header}.{payload}.",
        f"{header}.{payload}",
        f"{header}.{payload}.{signature[:-4]}",
        f"{header}.{payload}.{signature}.{signature}",
    ]


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
