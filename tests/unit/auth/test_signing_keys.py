import asyncio
import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from mcp_tools_proxy.auth.signing_keys import (
    AssertionSigner,
    InvalidKeyFile,
    SigningKeyFile,
    parse_signing_keys,
)
from mcp_tools_proxy.domain.caller import Caller
from tests.support.bounds import until
from tests.support.signing import make_key
from tests.support.tables import each_row

PEM, PKCS8, PLAIN = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(PEM, PKCS8, PLAIN)


def public(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(PEM, PublicFormat.SubjectPublicKeyInfo)


RSA = make_key("RS256").private.private_bytes(PEM, PKCS8, PLAIN)


@each_row(
    ("content", "algorithm", "count"),
    [
        (pem(EC), "ES256", 1),
        (EC.private_bytes(PEM, PrivateFormat.TraditionalOpenSSL, PLAIN), "ES256", 1),
        (pem(ED) + b"\n# the last one\n" + pem(EC), "EdDSA", 2),
        (RSA + public(ED) + public(ED), "RS256", 2),
    ],
)
def test_the_first_key_signs_and_all_keys_are_published(
    content: bytes, algorithm: str, count: int
) -> None:
    keys = parse_signing_keys(content)
    published = json.loads(json.dumps(keys.published))["keys"]
    assert (keys.algorithm, len(published)) == (algorithm, count)
    assert published[0]["kid"] == keys.kid
    assert all(entry["use"] == "sig" for entry in published)
    assert not {"d", "p", "q", "dp", "dq", "qi"} & {name for it in published for name in it}


def test_the_kid_is_the_thumbprint_of_the_key() -> None:
    (entry,) = json.loads(json.dumps(parse_signing_keys(pem(EC)).published))["keys"]
    named = {name: entry[name] for name in ("crv", "kty", "x", "y")}
    digest = hashlib.sha256(json.dumps(named, separators=(",", ":")).encode()).digest()
    assert entry["kid"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")


@each_row(
    ("content", "message"),
    [
        (b"", "should begin with a private key"),
        (public(EC) + pem(EC), "should begin with a private key"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "not a key"),
        (EC.private_bytes(PEM, PKCS8, BestAvailableEncryption(b"x")), "encrypted"),
        (pem(ec.generate_private_key(ec.SECP384R1())), "of an unsupported kind"),
        (make_key(bits=1024).private.private_bytes(PEM, PKCS8, PLAIN), "of an unsupported kind"),
        (b"x" * 70_000, "is over"),
    ],
)
def test_a_file_without_a_usable_signing_key_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(InvalidKeyFile, match=message):
        parse_signing_keys(content)


async def test_a_changed_file_is_loaded_and_an_invalid_one_keeps_the_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.pem"
    file.write_bytes(pem(EC))
    keys = SigningKeyFile(file)
    keys.load()
    first = keys.keys.kid
    running = asyncio.create_task(keys.run())  # noqa: TID251 - a test's own
    try:
        file.write_bytes(pem(ED) + public(EC))
        await until(lambda: keys.keys.kid != first, "the new key is read")
        assert keys.keys.algorithm == "EdDSA"
        file.write_bytes(b"broken")
        await until(lambda: keys.state()["status"] == "degraded", "it is broken")
        assert keys.keys.algorithm == "EdDSA"
    finally:
        running.cancel()


def test_an_assertion_has_one_audience_and_is_valid_for_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "keys.pem"
    file.write_bytes(pem(ED))
    keys = SigningKeyFile(file)
    keys.load()
    signer = AssertionSigner(keys, "https://gateway.example", clock=lambda: 1000.9)
    ann = Caller(tenant_id="acme", user_id="ann")
    tokens = [signer.sign(ann, "tickets") for _ in range(2)]
    options: Any = {"verify_exp": False, "verify_iat": False}
    first, second = (
        jwt.decode(it, ED.public_key(), ["EdDSA"], audience="tickets", options=options)
        for it in tokens
    )
    assert first.pop("jti") != second.pop("jti")
    assert first == {
        "iss": "https://gateway.example", "sub": "ann", "aud": "tickets", "iat": 1000,
        "exp": 1060, "tenant_id": "acme",
    }  # fmt: skip
