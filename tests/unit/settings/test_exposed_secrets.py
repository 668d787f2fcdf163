"""Sample and weak secrets are refused if other machines can reach the gateway."""

import re

import pytest
import yaml  # type: ignore[import-untyped] # has no types

from mcp_tools_proxy.settings.exposed_secrets import SAMPLES
from mcp_tools_proxy.settings.settings import SettingsError, load_settings
from tests.support.program_launch import ROOT
from tests.support.tables import each_row
from tests.unit.settings.environment import problem, put

GOOD = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
EXPOSED = (
    {"ALLOWED_HOSTS": "localhost,gateway.example.com"},
    {"ALLOWED_HOSTS": "*"},
    {"ALLOWED_HOSTS": "192.0.2.1:8082"},
    {"PUBLIC_URL": "https://gateway.example.com"},
)
SAMPLE = "for-local-trial-only"
REDIS = f"redis://:{SAMPLE}@redis:6379/0"
SECRETS = {
    "RETRIEVAL_TOKEN": SAMPLE,
    "RATE_LIMIT_STORAGE_URL": REDIS,
    "STATE_URL": REDIS,
    "STATE_KEY": f"{GOOD},for-local-trial-only-set-your-own-key",
    "DOCUMENTS_URL": f"postgresql://gateway:{SAMPLE}@postgres:5432/documents",
    "DOCUMENTS_OWNER_URL": "postgresql://postgres/documents?user=owner&password=secret",
    "ADMIN_TOKEN": "a" * 32,
    "SESSION_KEYS": "abcab" * 8,
    "CREDENTIALS_KEY": "12121212" * 4,
}


@each_row("exposed", EXPOSED)
@each_row("name", SECRETS)
def test_a_known_or_weak_secret_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, exposed: dict[str, str]
) -> None:
    message = problem(monkeypatch, {name: SECRETS[name], **exposed})
    assert message.startswith(f"MCP_PROXY_{name}: ")
    (variable,) = exposed
    assert f"MCP_PROXY_{variable}" in message
    assert "openssl rand -hex 32" in message
    assert SECRETS[name] not in message


@each_row("address", ["0.0.0.0", "192.0.2.1", "[::]"])  # noqa: S104
def test_a_published_address_of_compose_counts_as_exposed(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("GATEWAY_ADDRESS", address)
    put(monkeypatch, {"RATE_LIMIT_STORAGE_URL": REDIS})
    with pytest.raises(SettingsError, match="MCP_PROXY_RATE_LIMIT_STORAGE_URL") as error:
        load_settings()
    assert "REDIS_PASSWORD" in str(error.value)


@each_row("address", ["127.0.0.1", "[::1]", ""])
@each_row(
    "local",
    [
        {},
        {"ALLOWED_HOSTS": "localhost,127.0.0.1,[::1],gateway,gateway:8082,app.localhost"},
        {"PUBLIC_URL": "http://localhost:8082"},
    ],
)
def test_sample_secrets_are_accepted_on_loopback(
    monkeypatch: pytest.MonkeyPatch, address: str, local: dict[str, str]
) -> None:
    monkeypatch.setenv("GATEWAY_ADDRESS", address)
    put(monkeypatch, {**SECRETS, **local})
    assert load_settings().admin_token is not None


@each_row("exposed", EXPOSED)
def test_own_secrets_are_accepted(monkeypatch: pytest.MonkeyPatch, exposed: dict[str, str]) -> None:
    own = {"ADMIN_TOKEN": GOOD, "STATE_KEY": GOOD, "STATE_URL": f"redis://:{GOOD}@redis/0"}
    put(monkeypatch, {**own, "RATE_LIMIT_STORAGE_URL": "redis://redis/0", **exposed})
    assert load_settings().admin_token is not None


def test_every_published_secret_is_known_as_a_sample() -> None:
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    pages = (*ROOT.glob("docs/**/*.md"), *ROOT.glob("services/**/README.md"))
    texts = [compose, *(it.read_text(encoding="utf-8") for it in pages)]
    texts.append((ROOT / "docker/postgres.env").read_text(encoding="utf-8"))
    texts.append((ROOT / ".env.example").read_text(encoding="utf-8"))
    found = {
        secret
        for text in texts
        for pattern in (
            r"(?:TOKEN|KEY|KEYS|PASSWORD|SECRET)(?::-|=)([A-Za-z0-9_-]+)(?=[}\s]|$)",
            r"(?:redis|postgres(?:ql)?)://[a-z]*:([A-Za-z0-9_-]+)@",
        )
        for secret in re.findall(pattern, text)
    }
    assert found - SAMPLES - {"file", "DIR"} == set()


def test_compose_passes_the_published_address() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    gateway = compose["services"]["gateway"]
    assert gateway["environment"]["GATEWAY_ADDRESS"] == "${GATEWAY_ADDRESS:-127.0.0.1}"
    assert gateway["ports"][0].startswith("${GATEWAY_ADDRESS:-127.0.0.1}:")
