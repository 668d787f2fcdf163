"""An operator's requests about tokens."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from mcp_tools_proxy.auth.token_format import TokenEntry, read_lines, sha256_of
from mcp_tools_proxy.domain.identity import OperatorRight
from tests.api.document_operator import ADMIN
from tests.support.service import Service, running
from tests.support.tokens import TOKENS_FILE, bearer, file_token, token_settings

PATH = "/internal/mcp/tokens"
TOKENS = OperatorRight.TOKENS


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Service]:
    """Serve with an admin token and a file with tokens of each test."""
    async with running(**token_settings(), admin_token=ADMIN, **settings) as service:
        yield service


async def loaded(service: Service, **holder: Any) -> str:
    """Return a known token with the right TOKENS."""
    token = file_token(**{"may": [TOKENS], **holder})
    await reload(service)
    return token


async def reload(service: Service) -> None:
    assert service.gateway.tokens is not None
    await service.gateway.tokens.load()


async def create(service: Service, token: str = ADMIN, **wanted: Any) -> httpx.Response:
    return await service.http.post(PATH, json=wanted, headers=bearer(token))


async def revoke(service: Service, token_id: str, token: str = ADMIN) -> httpx.Response:
    return await service.http.delete(PATH, params={"token_id": token_id}, headers=bearer(token))


async def listed(service: Service, token: str = ADMIN, **query: Any) -> Any:
    answer = await service.http.get(PATH, params=query, headers=bearer(token))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ids_of(service: Service, token: str = ADMIN) -> set[str]:
    return {it["id"] for it in (await listed(service, token))["tokens"]}


def entry_of(token: str) -> TokenEntry:
    entries = read_lines(TOKENS_FILE.read_bytes()).entries
    return next(it for it in entries if it.hash == sha256_of(token))
