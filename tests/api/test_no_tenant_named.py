"""An operator of all tenants who names none: no internal error with any store."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcp_tools_proxy.console.navigation import PARTS
from tests.support.console_browser import ADMIN, ConsoleService, running_console
from tests.support.postgres_databases import Databases
from tests.support.service import EXECUTE, request_of
from tests.support.tokens import bearer

LIST = "/internal/documents"
PAGE = "/console/documents"


@pytest.fixture
async def console(databases: Databases) -> AsyncIterator[ConsoleService]:
    """A console with PostgreSQL, using the gateway's role, which sees no tenant by default."""
    url = (await databases.new()).url
    async with running_console(documents_url=url) as made:
        yield made


async def test_the_list_of_documents_requires_a_tenant(console: ConsoleService) -> None:
    answer = await console.service.http.get(LIST, headers=bearer(ADMIN))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["details"]) == (
        422,
        "INVALID_REQUEST",
        {"field": "tenant_id"},
    )
    named = await console.service.http.get(
        LIST, params={"tenant_id": "acme"}, headers=bearer(ADMIN)
    )
    assert (named.status_code, named.json()["documents"]) == (200, [])


async def test_the_page_requires_a_tenant_and_suggests_those_of_recent_calls(
    console: ConsoleService,
) -> None:
    await console.service.http.post(
        EXECUTE, json=request_of("list_available_tools", tenant_id="acme")
    )
    page = await console.browser.open(PAGE)
    assert "Choose a tenant" in page.text
    assert "Known tenants: acme" in page.text
    assert f"{PAGE}?tenant_id=acme" in page.links


async def test_no_route_fails_without_a_tenant(console: ConsoleService) -> None:
    document = (await console.service.http.get("/openapi.json")).json()
    answers: dict[str, Any] = {}
    for path, operations in document["paths"].items():
        if "get" in operations and "{" not in path and "stream" not in path:
            answer = await console.service.http.get(path, headers=bearer(ADMIN))
            answers[path] = answer.status_code
    assert LIST in answers
    assert {path: status for path, status in answers.items() if status >= 500} == {}


async def test_no_page_fails_without_a_tenant(console: ConsoleService) -> None:
    below = ("search", "verify", "upload", "read", "manage")
    pages = [*(part.path for part in PARTS), *(f"{PAGE}/{it}" for it in below)]
    statuses = {path: (await console.browser.get(path)).status_code for path in pages}
    assert {path: status for path, status in statuses.items() if status >= 500} == {}
