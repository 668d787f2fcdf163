import base64
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from mcp_tools_proxy.auth import jwt_verifier
from mcp_tools_proxy.auth.claims import ALGORITHMS
from mcp_tools_proxy.auth.jwt_verifier import JwtVerifier
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.identity import Principal
from tests.support.signing import (
    AUDIENCE,
    ISSUER,
    Json,
    SigningKey,
    claims_of,
    forged,
    make_key,
    spoilt,
)
from tests.support.tables import each_row
from tests.unit.auth.jwt_keys import KEY, OTHER, Keys, current_clock, keys_of, verifier_of


async def refusal(tokens: JwtVerifier, token: str) -> Unauthenticated:
    with pytest.raises(Unauthenticated) as caught:
        await tokens.verify(token)
    return caught.value


@each_row("algorithm", ALGORITHMS)
async def test_a_valid_token_gives_the_principal_of_its_claims(algorithm: str) -> None:
    key = make_key(algorithm)
    assert await verifier_of(Keys(key)).verify(key.sign()) == Principal(
        tenant_id="tenant_1", user_id="user_1"
    )


async def test_one_matching_audience_of_several_is_enough() -> None:
    principal = await verifier_of().verify(KEY.sign(aud=["x", "another"]))
    assert principal.tenant_id == "tenant_1"


@each_row(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": ISSUER + "/"},
        {"iss": ...},
        {"aud": "another service"},
        {"aud": AUDIENCE + "2"},
        {"aud": []},
        {"aud": ...},
        {"exp": ...},
        {"exp": 1_700_000_000},
        {"nbf": 9_900_000_000},
        {"iat": 9_900_000_000},
        {"tenant_id": ...},
        {"sub": 7},
    ],
)
async def test_a_token_with_a_wrong_claim_is_refused(claims: dict[str, Any]) -> None:
    assert (await refusal(verifier_of(), KEY.sign(**claims))).token_refused


@each_row("claim", ["exp", "iss", "aud"])
async def test_a_refusal_names_the_missing_claim(claim: str) -> None:
    without: dict[str, Any] = {claim: ...}
    assert (await refusal(verifier_of(), KEY.sign(**without))).message == (
        f"the token lacks the claim {claim}; get one that has it"
    )


@each_row(
    "token",
    spoilt(KEY.sign()),
)
async def test_a_modified_token_is_refused(token: str) -> None:
    assert (await refusal(verifier_of(), token)).token_refused


@each_row(
    "token",
    ["", ".", "..", "a.b.c", "é.é.é", "mtp_" + "a" * 43, "a" * 20_000],
)
async def test_a_malformed_jwt_is_refused(token: str) -> None:
    assert (await refusal(verifier_of(), token)).token_refused


def der(key: SigningKey) -> bytes:
    encoded: bytes = key.private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


SECRETS = [KEY.pem(), KEY.pem().strip(), der(KEY), KEY.jwk()["n"].encode(), b""]


@each_row("algorithm", ["HS256", "HS384", "HS512"])
@each_row(
    "secret",
    SECRETS,
)
async def test_a_public_key_is_not_accepted_as_a_shared_secret(
    algorithm: str, secret: bytes
) -> None:
    token = forged({"alg": algorithm, "kid": "k1"}, secret=secret)
    assert (await refusal(verifier_of(), token)).token_refused


@each_row("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_symmetric_signatures_are_refused(algorithm: str) -> None:
    token = forged({"alg": algorithm, "kid": "k1"}, secret=KEY.pem())
    assert (await refusal(verifier_of(), token)).token_refused


@each_row(
    "algorithm",
    ["none", "None", "NONE", "nOnE", "", None, 5, ["RS256"], {}],
)
async def test_an_unsigned_token_is_refused(algorithm: object) -> None:
    token = forged({"alg": algorithm, "kid": "k1"})
    assert (await refusal(verifier_of(), token)).token_refused


async def test_a_token_without_an_algorithm_is_refused() -> None:
    assert (await refusal(verifier_of(), forged({"kid": "k1"}))).token_refused


async def test_an_algorithm_outside_the_allow_list_is_refused() -> None:
    assert (await refusal(verifier_of(algorithms=("ES256",)), KEY.sign())).token_refused


async def test_another_algorithm_with_the_same_key_is_refused() -> None:
    token = jwt.encode(claims_of(), KEY.private, "RS512", {"kid": "k1"})
    assert (await refusal(verifier_of(), token)).token_refused


async def test_a_token_signed_with_another_key_is_refused_with_any_kid() -> None:
    token = OTHER.sign(headers={"kid": "k1"})
    assert (await refusal(verifier_of(), token)).token_refused


@each_row(
    "kid",
    ["", "K1", "../k1", "k1\x00", "' OR 1=1 --", "/dev/null", "https://a.example/k1", "x" * 5000],
)
async def test_a_kid_is_used_for_lookups_only(kid: str) -> None:
    assert (await refusal(verifier_of(), KEY.sign(headers={"kid": kid}))).token_refused


@each_row(
    "kid",
    [5, None, ["k1"], {}],
)
async def test_a_kid_that_is_not_a_string_is_refused(kid: object) -> None:
    token = forged({"alg": "RS256", "kid": kid}, secret=b"x")
    assert (await refusal(verifier_of(), token)).token_refused


@pytest.mark.parametrize(
    "headers",
    [
        {"jwk": OTHER.jwk()},
        {"jku": "https://evil.example/jwks"},
        {"x5u": "https://evil.example/cert"},
        {"x5c": [base64.b64encode(der(OTHER)).decode()]},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_keys_inside_a_token_are_ignored(headers: Json) -> None:
    token = OTHER.sign(headers={"kid": "k1", **headers})
    assert (await refusal(verifier_of(), token)).token_refused


@each_row("headers", [{"crit": ["exp"], "exp": 1}, {"crit": ["b64"], "b64": True}])
async def test_a_critical_extension_is_refused(headers: Json) -> None:
    token = forged({"alg": "RS256", "kid": "k1", **headers}, secret=b"x")
    assert (await refusal(verifier_of(), token)).token_refused


async def test_a_critical_extension_is_refused_even_with_a_valid_signature() -> None:
    token = KEY.sign(headers={"crit": ["exp"], "exp": 1})
    assert (await refusal(verifier_of(), token)).token_refused


async def test_a_refusal_does_not_contain_parts_of_the_token() -> None:
    token = KEY.sign(tenant_id="hush", exp=1)
    message = str(await refusal(verifier_of(), token))
    assert [part for part in ("hush", *token.split(".")) if part in message] == []


async def test_an_unknown_key_triggers_one_refresh() -> None:
    source = Keys(KEY)
    await refusal(verifier_of(source), OTHER.sign())
    assert source.refreshes == 1


async def test_a_key_added_since_the_last_refresh_is_found() -> None:
    source = Keys(KEY)
    source.next = keys_of(KEY, OTHER)
    assert (await verifier_of(source).verify(OTHER.sign())).tenant_id == "tenant_1"


async def test_a_known_key_does_not_trigger_a_refresh() -> None:
    source = Keys(KEY)
    await verifier_of(source).verify(KEY.sign())
    assert source.refreshes == 0


async def test_without_keys_the_error_is_not_token_refused() -> None:
    assert not (await refusal(verifier_of(Keys()), KEY.sign())).token_refused


async def test_a_token_is_refused_after_its_key_was_removed() -> None:
    source, token = Keys(KEY), KEY.sign()
    tokens = verifier_of(source)
    await tokens.verify(token)
    source.keys = keys_of(OTHER)
    assert (await refusal(tokens, token)).token_refused


@each_row(("claim", "seconds"), [("exp", -5), ("nbf", 5), ("iat", 5)])
async def test_the_issuers_clock_can_differ_by_the_leeway(claim: str, seconds: int) -> None:
    clock = current_clock()
    claims: dict[str, Any] = {claim: clock.now + seconds}
    assert (await verifier_of(clock=clock).verify(KEY.sign(**claims))).tenant_id == "tenant_1"


async def test_a_cached_token_is_refused_after_its_expiry() -> None:
    clock = current_clock()
    tokens, token = verifier_of(clock=clock), KEY.sign(exp=clock.now + 5)
    await tokens.verify(token)
    clock.now += 16
    assert (await refusal(tokens, token)).token_refused


async def test_the_number_of_cached_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt_verifier, "MAX_REMEMBERED", 8)
    key = make_key("EdDSA")
    tokens = verifier_of(Keys(key))
    for number in range(8 + 5):
        await tokens.verify(key.sign(jti=str(number)))
    assert "8 remembered" in repr(tokens)
