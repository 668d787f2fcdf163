import base64
import json

import pytest

from mcp_tools_proxy.auth.claims import ALGORITHMS
from mcp_tools_proxy.auth.jwks import MAX_KEYS, InvalidJwks, parse_key_set
from tests.support.signing import Json, SigningKey, key_set, make_key
from tests.support.tables import each_row

RSA = make_key("RS256", "rsa")
SHARED: Json = {
    "kty": "oct",
    "kid": "rsa",
    "k": base64.urlsafe_b64encode(RSA.pem()).decode().rstrip("="),
    "alg": "HS256",
}


@each_row("algorithm", ALGORITHMS)
def test_a_key_is_found_by_its_stated_algorithm(algorithm: str) -> None:
    keys = parse_key_set(key_set(make_key(algorithm)), ALGORITHMS)
    assert [own for own in ALGORITHMS if keys.find("k1", own)] == [algorithm]


@each_row(
    ("algorithm", "own"),
    [("RS256", list(ALGORITHMS[:6])), ("ES256", ["ES256"]), ("EdDSA", ["EdDSA"])],
)
def test_a_key_without_an_algorithm_is_found_by_the_algorithms_of_its_type(
    algorithm: str, own: list[str]
) -> None:
    keys = parse_key_set(key_set(make_key(algorithm).jwk(alg=...)), ALGORITHMS)
    assert [one for one in ALGORITHMS if keys.find("k1", one)] == own


def test_a_key_is_found_by_allowed_algorithms_only() -> None:
    keys = parse_key_set(key_set(RSA.jwk(alg=...)), ["RS512"])
    assert [one for one in ALGORITHMS if keys.find("rsa", one)] == ["RS512"]


UNUSABLE: dict[str, Json | str] = {
    "a shared secret": SHARED,
    "not an object": "not an object",
    "another kind": RSA.jwk(kty="EC"),
    "a shared secret's algorithm": RSA.jwk(alg="HS256"),
    "no algorithm": RSA.jwk(alg="none"),
    "another kind's algorithm": RSA.jwk(alg="ES256"),
    "for encryption": RSA.jwk(use="enc"),
    "for wrapping": RSA.jwk(use="wrap"),
    "for encrypting": RSA.jwk(key_ops=["encrypt"]),
    "a kid that is not a string": RSA.jwk(kid=5),
    "no modulus": RSA.jwk(n=...),
    "an invalid modulus": RSA.jwk(n="!"),
    "an invalid exponent": RSA.jwk(e=5),
    "too short": make_key("RS256", "short", bits=1024).jwk(),
    "another curve": make_key("ES256").jwk(crv="P-384"),
    "a point off the curve": make_key("ES256").jwk(x="AAAA"),
    "a curve for agreeing on keys": make_key("EdDSA").jwk(crv="X25519"),
}


@each_row("entry", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_key_is_skipped_and_counted(entry: Json) -> None:
    keys = parse_key_set(key_set(entry, make_key("EdDSA", "good")), ALGORITHMS)
    assert (keys.count, keys.unusable, [kid for kid, _ in keys.by_kid]) == (1, 1, ["good"])


def test_every_unusable_key_is_counted() -> None:
    data = key_set(RSA.jwk(use="enc"), RSA.jwk(kid=5), SHARED, RSA)
    assert parse_key_set(data, ALGORITHMS).unusable == 3


def test_a_key_set_can_have_100_keys() -> None:
    data = json.dumps({"keys": [{}] * 100}).encode()
    assert parse_key_set(data, ALGORITHMS).unusable == 100


def test_only_the_public_part_of_a_private_key_is_kept() -> None:
    keys = parse_key_set(key_set(RSA.jwk(d="AAAA", p="AAAA")), ALGORITHMS)
    assert keys.count == 1


def test_the_first_of_two_keys_with_the_same_kid_is_used() -> None:
    keys = parse_key_set(key_set(RSA, make_key("RS256", "other").jwk(kid="rsa")), ALGORITHMS)
    assert (keys.count, keys.unusable) == (1, 1)


@each_row(
    ("entries", "found"),
    [
        ([RSA], True),
        ([RSA, make_key("EdDSA")], True),
        ([RSA, make_key("RS256", "other")], False),
    ],
    ids=["one key", "one of the kind", "two of the kind"],
)
def test_a_token_without_a_kid_matches_the_only_key_of_its_algorithm(
    entries: list[SigningKey], *, found: bool
) -> None:
    keys = parse_key_set(key_set(*entries), ALGORITHMS)
    assert (keys.find(None, "RS256") is not None) is found


def test_a_key_without_a_kid_matches_tokens_without_a_kid() -> None:
    keys = parse_key_set(key_set(RSA.jwk(kid=...)), ALGORITHMS)
    assert (keys.find(None, "RS256") is not None, keys.find("x", "RS256")) == (True, None)


@each_row(
    "data",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b"\xff",
        b'{"keys": ' + b"[" * 100_000,
        json.dumps({"keys": [{}] * (MAX_KEYS + 1)}).encode(),
    ],
)
def test_an_invalid_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidJwks):
        parse_key_set(data, ALGORITHMS)
