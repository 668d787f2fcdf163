from pathlib import Path
from typing import Any

import jwt
import pytest

from mcp_tools_proxy.settings.settings import SettingsError, load_settings
from tests.downstream.caller_gateway import given, serving, user
from tests.support.key_file import write_key
from tests.support.service import Service, running

KEYS = "/.well-known/jwks.json"
ISSUER = "https://gateway.example"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "keys.pem"
    write_key(file)
    return file


async def claims_of(service: Service, token: str) -> Any:
    """Verify a token like a server: with the key it names, for the server's audience."""
    response = await service.http.get(KEYS, headers={"Host": "elsewhere.example"})
    assert response.headers["cache-control"] == "public, max-age=300"
    keys = jwt.PyJWKSet.from_dict(response.json())
    key = keys[jwt.get_unverified_header(token)["kid"]]
    return jwt.decode(token, key, [key.algorithm_name], audience="tickets", issuer=ISSUER)


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_each_call_has_a_separate_assertion(key_file: Path, transport: str, era: str) -> None:
    entry = {"assertion": {"audience": "tickets"}}
    settings = {"signing_key_file": str(key_file), "public_url": ISSUER}
    async with serving(entry, transport=transport, era=era, **settings) as service:
        seen = set()
        for tenant in ("acme", "globex", "acme"):
            headers = await given(service, "headers", user(tenant), agent="helper")
            claims = await claims_of(service, headers["x-caller-assertion"])
            assert (claims["tenant_id"], claims["sub"], claims["agent"]) == (
                tenant, "ann", "helper",
            )  # fmt: skip
            assert claims["exp"] - claims["iat"] == 60
            seen.add(claims["jti"])
        assert len(seen) == 3
        write_key(key_file)  # the previous key stays published
        headers = await given(service, "headers", user("acme"))
        assert "agent" not in await claims_of(service, headers["x-caller-assertion"])


async def test_the_route_requires_keys() -> None:
    async with running(public_url=ISSUER) as service:
        response = await service.http.get(KEYS)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND")


def test_keys_require_an_issuer(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_PROXY_SIGNING_KEY_FILE", str(key_file))
    with pytest.raises(SettingsError, match="MCP_PROXY_PUBLIC_URL: is required"):
        load_settings()


async def test_a_file_without_a_key_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(ValueError, match="MCP_PROXY_SIGNING_KEY_FILE: the file should begin"):
        async with running(signing_key_file=tmp_path / "empty.pem", public_url=ISSUER):
            pass
