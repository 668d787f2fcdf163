"""A person at the console who may approve calls, and an application whose calls wait."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from playwright.async_api import Browser, Page

from tests.support.approvals import APPROVE, PAY, TOOL, config_of, write_policies
from tests.support.bounds import BOUND_S
from tests.support.configuration import Json
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.plain_http import NO_TLS
from tests.support.program import UNLIMITED, started
from tests.support.service import CONFIG_DIR, EXECUTE
from tests.support.tokens import TOKENS_FILE, bearer, file_token
from tests.system.console.opened_pages import new_page
from tests.system.console.people import sign_in


@asynccontextmanager
async def approver(
    chromium: Browser, policy: str = PAY
) -> AsyncIterator[tuple[Page, httpx.AsyncClient, str]]:
    """Sign in as a person who may approve; return a client and a token of an application."""
    async with running_raw(extra={"tools": [TOOL]}) as server:
        config_of(server).write(CONFIG_DIR)
        write_policies(policy)
        service = file_token(asserts_users=True)
        boss = file_token(user="boss", may=APPROVE, executes=False)
        environment = {
            **UNLIMITED,
            "MCP_PROXY_AUTH_MODE": "token",
            "MCP_PROXY_TOKENS_FILE": str(TOKENS_FILE.absolute()),
            "MCP_PROXY_CONSOLE": "true",
        }
        with started(Path.cwd(), environment) as program:
            url = f"http://127.0.0.1:{program.port}"
            async with (
                httpx.AsyncClient(base_url=url, timeout=BOUND_S, verify=NO_TLS) as http,
                new_page(chromium, url) as page,
            ):
                await sign_in(page, boss)
                yield page, http, service


async def pay(http: httpx.AsyncClient, token: str, to: str, *, user_id: str = "ann") -> Json:
    """Make a call of a user, repeated until the gateway knows the server."""
    body = {
        "tool_name": "shop:pay",
        "arguments": {"to": to, "cents": 500},
        "user": {"user_id": user_id},
        "run": {"id": "invoices-of-may"},
    }
    while True:
        answer: Json = (await http.post(EXECUTE, json=body, headers=bearer(token))).json()
        if not answer.get("error", {}).get("retryable"):
            return answer
