import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from mcp_tools_proxy.policy.guards.secrets import (
    MAX_SECRETS,
    OVERLAP,
    UNCLEAR,
    WINDOW,
    find_secrets,
)
from mcp_tools_proxy.policy.guards.texts import Texts, TextSpan
from tests.support.tables import each_row

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kept_secret_rules")]
"""Compiling the rules takes 4 s of CPU."""

TOKEN = "ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3"
START = "-----BEGIN PRIVATE KEY-----\n"


def found_in(*pages: str) -> tuple[list[TextSpan], str]:
    texts = Texts({"pages": list(pages)})
    for _ in texts.read():
        pass
    return [it for it in find_secrets(texts, ()) if it is not None], texts.joined


@pytest.fixture(scope="module")
def key() -> str:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    pem = private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return pem.decode()


def test_a_private_key_without_its_end_is_found_up_to_the_end_of_its_text(key: str) -> None:
    for cut in (key[:500], key[:500].replace("\n", "\\n"), f"{key} and {key[:900]}"):
        spans, joined = found_in(cut, "next page")
        assert spans[-1].end == joined.index('"\n"next page')
        assert {it.kind for it in spans} == {"private-key"}


def test_a_mentioned_private_key_is_not_a_finding() -> None:
    assert (
        found_in("paste what is below -----BEGIN PRIVATE KEY----- into the field, and save")[0]
        == []
    )


@each_row(
    "text",
    [
        'curl -H "Authorization: Bearer your-token-here" https://api.internal',
        "mongodb+srv://username:password@cluster.internal/shop",
        "postgresql://user:somePassword@db.internal:5432/shop",
    ],
)
def test_a_placeholder_from_documentation_is_not_a_finding(text: str) -> None:
    assert found_in(text)[0] == []


@each_row("secret", ["password7Kq2vX", "my-tok3n", "passWort", "changeme"])
def test_a_secret_that_contains_placeholder_words_is_found(secret: str) -> None:
    spans, joined = found_in(f"postgresql://user:{secret}@db.internal:5432/shop")
    assert [joined[it.start : it.end] for it in spans] == [secret]


@each_row("place", [WINDOW - 20, WINDOW + OVERLAP - 20, 2 * WINDOW - 1])
def test_a_secret_across_the_end_of_a_window_is_found_once(place: int) -> None:
    spans, joined = found_in(f"{'é' * place} {TOKEN} {'y' * 3 * WINDOW}")
    assert [joined[it.start : it.end] for it in spans] == [TOKEN]


def test_the_number_of_secrets_found_in_a_text_is_limited() -> None:
    spans, joined = found_in(START * (2**20 // len(START)))
    assert len(spans) == MAX_SECRETS + 1
    assert spans[-1].kind == UNCLEAR
    assert spans[-1].end == len(joined)
