"""Discovery of the sign-in by MCP clients: RFC 9728, and the challenge of a 401."""

from typing import Any

import pytest

from mcp_tools_proxy.mcp.server.http.protected_resource import METADATA_PATH as METADATA
from tests.support.configuration import Config, make_agent
from tests.support.mcp_endpoint import BOTH, INITIALIZE, Served, serving
from tests.support.signing import ISSUER
from tests.support.tokens import (
    KEY,
    PUBLIC_URL,
    RESOURCE,
    bearer,
    jwt_settings,
    sign_in_settings,
    token_settings,
)

LINK = f'resource_metadata="{PUBLIC_URL}{METADATA}/mcp"'
PATHS = ("/mcp", "/mcp/sse", "/mcp/agents/one", "/mcp/agents/none", "/mcp/agents/none/sse")


async def challenge(served: Served, path: str, headers: dict[str, str]) -> str:
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
    response = await served.http.post(path, json=body, headers={**BOTH, **headers})
    assert response.status_code == 401
    return response.headers["www-authenticate"]


async def test_the_metadata_is_the_same_for_every_path() -> None:
    config = Config(agents=[make_agent("one")])
    settings = sign_in_settings(jwt_scopes=("tools", "offline_access"))
    async with serving(config=config, **settings) as served:
        answers = [await served.http.get(METADATA + path) for path in ("", *PATHS)]
    assert {answer.status_code for answer in answers} == {200}
    assert all(answer.json() == answers[0].json() for answer in answers)
    assert answers[0].json() == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["tools", "offline_access"],
    }


@pytest.mark.parametrize("path", PATHS)
async def test_a_challenge_links_to_the_metadata(path: str) -> None:
    async with serving(**sign_in_settings()) as served:
        missing = await challenge(served, path, {})
        refused = await challenge(served, path, bearer("no.such.token"))
    assert missing == f"Bearer {LINK}"
    assert refused == f'Bearer error="invalid_token", {LINK}'


async def test_a_challenge_names_the_scopes() -> None:
    async with serving(**sign_in_settings(jwt_scopes=("a", "b"))) as served:
        assert await challenge(served, "/mcp", {}) == f'Bearer {LINK}, scope="a b"'


async def test_a_challenge_is_also_sent_after_too_many_bad_tokens() -> None:
    async with serving(**sign_in_settings()) as served:
        for number in range(20):
            found = await challenge(served, "/mcp", bearer(f"bad-{number}"))
        refused = await served.http.post("/mcp", json={}, headers=bearer("bad"))
    assert refused.headers.get("retry-after")
    assert LINK in found
    assert LINK in refused.headers["www-authenticate"]


async def test_the_http_api_offers_no_sign_in() -> None:
    async with serving(**sign_in_settings()) as served:
        response = await served.http.get("/internal/mcp/tools")
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


async def test_a_token_for_the_resource_is_accepted() -> None:
    token = KEY.sign(tenant_id="tenant_1", aud=RESOURCE)
    async with (
        serving(**sign_in_settings()) as served,
        served.client(headers=bearer(token)) as client,
    ):
        assert (await client.list_tools()).tools


@pytest.mark.parametrize(
    "settings",
    [
        lambda: {**jwt_settings(), "public_url": PUBLIC_URL},
        lambda: {**jwt_settings(), "jwt_audience": (RESOURCE,)},
        lambda: {**token_settings(), "public_url": PUBLIC_URL},
        lambda: {"public_url": PUBLIC_URL},
    ],
    ids=["another audience", "no public URL", "tokens of a file", "no tokens"],
)
async def test_no_sign_in_is_offered_if_its_tokens_would_be_refused(settings: Any) -> None:
    async with serving(**settings()) as served:
        metadata = await served.http.get(METADATA)
        response = await served.http.post("/mcp", json={}, headers=BOTH)
    assert (metadata.status_code, metadata.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert "resource_metadata" not in response.headers.get("www-authenticate", "")
