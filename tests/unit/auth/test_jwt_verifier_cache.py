from mcp_tools_proxy.auth.jwt_verifier import MAX_TOKEN_CHARS, JwtVerifier
from mcp_tools_proxy.domain.errors import Unauthenticated
from tests.support.signing import ISSUER, SigningKey, forged, make_key
from tests.support.virtual_time import ManualClock
from tests.unit.auth.jwt_keys import KEY, OTHER, Keys, current_clock, keys_of, verifier_of


async def is_valid(tokens: JwtVerifier, token: str) -> bool:
    try:
        await tokens.verify(token)
    except Unauthenticated:
        return False
    return True


async def test_a_cached_token_stays_valid_while_its_key_is_published() -> None:
    source, clock = Keys(KEY, OTHER), current_clock()
    tokens, mine, others = verifier_of(source, clock=clock), KEY.sign(), OTHER.sign()
    for token in (mine, others):
        assert await is_valid(tokens, token)
    clock.now += 300
    source.keys = keys_of(make_key("RS256", "third"), KEY)
    assert (await is_valid(tokens, mine), await is_valid(tokens, others)) == (True, False)
    clock.now += 311
    assert not await is_valid(tokens, mine)


async def test_a_cached_token_is_valid_until_the_leeway_ends() -> None:
    clock = ManualClock(2_000_000_000.0)
    tokens, token = verifier_of(clock=clock), KEY.sign(exp=2_000_000_005)
    assert await is_valid(tokens, token)
    clock.now = 2_000_000_014.9
    assert await is_valid(tokens, token)
    clock.now = 2_000_000_015.0
    assert not await is_valid(tokens, token)


async def test_a_cached_token_is_dropped_when_its_kid_names_another_key() -> None:
    source = Keys(make_key("ES256"))
    tokens, token = verifier_of(source), make_key("ES256").sign()
    assert await is_valid(tokens, token)
    source.keys = keys_of(SigningKey("k1", "ES256", make_key("ES256", "another").private))
    assert not await is_valid(tokens, token)


async def test_invalid_tokens_are_refused_after_a_valid_one_was_cached() -> None:
    tokens = verifier_of()
    good = KEY.sign()
    bad = [
        KEY.sign(iss="https://another.example"),
        KEY.sign(exp=1),
        KEY.sign(exp=...),
        forged({"alg": "none"}, iss=5),
        "mtp_none",
        "a.b.c",
        "\u00e9.\u00e9.\u00e9",
        f"{good}.x",
        good + "x" * 20_000,
    ]
    assert await is_valid(tokens, good)
    assert [await is_valid(tokens, token) for token in bad] == [False] * len(bad)


def of_length(key: SigningKey, chars: int) -> str:
    """Sign a token of exactly this length. A header pads it, as Base64 allows only some lengths."""
    about = chars * 3 // 4
    tokens = (
        key.sign(headers={"pad": "h" * width}, pad="c" * (about - less))
        for width in range(3)
        for less in range(100, 500)
    )
    return next(token for token in tokens if len(token) == chars)


async def test_a_token_of_the_maximum_length_is_accepted() -> None:
    key = make_key("EdDSA")
    assert await is_valid(verifier_of(Keys(key)), of_length(key, MAX_TOKEN_CHARS))


async def test_log_fields_contain_issuer_and_truncated_subject() -> None:
    verifier = verifier_of()
    found = [
        (await verifier.verify(KEY.sign(sub=f"{'u' * 200}{it}"))).token_log_fields for it in "ab"
    ]
    assert [it["issuer"] for it in found] == [ISSUER] * 2
    assert {len(it["subject"]) for it in found} == {128}
    assert len({it["subject"] for it in found}) == 2
