"""The pages of approvals in a browser: accessible, narrow as well, and calls shown as text."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from playwright.async_api import Browser, Page, expect

from tests.support.approvals import APPROVE, PAY, TOOL, config_of, write_policies
from tests.support.bounds import BOUND_S
from tests.support.configuration import Json
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.plain_http import NO_TLS
from tests.support.program import UNLIMITED, started
from tests.support.service import CONFIG_DIR, EXECUTE
from tests.support.tokens import TOKENS_FILE, bearer, file_token
from tests.system.console.opened_pages import expect_accessible, new_page
from tests.system.console.people import expect_done, sign_in
from tests.system.console.planted import PLANTED, READABLE, SHORT

MARKUP = PAY.replace("A second person has to agree.", SHORT)


@asynccontextmanager
async def approver(chromium: Browser) -> AsyncIterator[tuple[Page, httpx.AsyncClient, str]]:
    """Sign in as a person who may approve; return a client and a token of an application."""
    async with running_raw(extra={"tools": [TOOL]}) as server:
        config_of(server).write(CONFIG_DIR)
        write_policies(MARKUP)
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


async def pay(http: httpx.AsyncClient, token: str, to: str) -> Json:
    """Make a call of a user with markup in its id, repeated until the gateway knows the server."""
    body = {
        "tool_name": "shop:pay",
        "arguments": {"to": to, "cents": 500},
        "user": {"user_id": SHORT},
        "run": {"id": "the run"},
    }
    while True:
        answer: Json = (await http.post(EXECUTE, json=body, headers=bearer(token))).json()
        if not answer.get("error", {}).get("retryable"):
            return answer


async def test_a_person_reads_and_decides(chromium: Browser) -> None:
    async with approver(chromium) as (page, http, token):
        await page.goto("/console/approvals")
        await expect(page.get_by_text("No calls are waiting")).to_be_visible()
        await expect_accessible(page)
        planted, bob = [
            (await pay(http, token, to))["error"]["details"]["approval_id"]
            for to in (PLANTED, "bob")
        ]
        await page.reload()
        await expect_accessible(page)
        await page.locator(f"a[href$='{planted}']").click()
        await expect(page.get_by_role("heading", name="Arguments")).to_be_visible()
        await expect(page.locator("pre")).to_contain_text(READABLE.replace('"', '\\"'))
        await expect(page.locator("pre")).to_contain_text(r"\u202e")
        await expect_accessible(page)
        await page.get_by_role("button", name="Approve").click()
        await expect_done(page, "Approved.")
        await expect_accessible(page)
        assert (await pay(http, token, PLANTED))["status"] == "ok"
        await page.reload()
        await expect(page.get_by_text("used, succeeded")).to_be_visible()
        await page.goto("/console/approvals")
        await page.locator(f"a[href$='{bob}']").click()
        await page.get_by_label("Note").fill("Not today")
        await page.get_by_role("button", name="Refuse").click()
        await expect_done(page, "Refused.")
        assert "Not today" in (await pay(http, token, "bob"))["error"]["message"]
        await page.goto("/console/approvals")
        await expect_accessible(page)
        await page.goto("/console/approvals/none")
        await expect_accessible(page)
