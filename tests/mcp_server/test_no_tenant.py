from typing import Any

import pytest

from tests.mcp_server.entries import HTTP_PATHS, ByMcp, Who, by_stdio, entered
from tests.support.http_api import DOC_1, DOCUMENT_TOOL
from tests.support.mcp_endpoint import ERAS, in_front_of_two, serving

WITHOUT_TENANT = Who(None, None)
ENTRIES = [name for name in HTTP_PATHS if not name.startswith("agents")]


async def seen(name: str, mode: str, **settings: Any) -> tuple[bool, bool, str | None]:
    """Connect without a tenant; return whether documents are listed and callable, then a server."""
    async with (
        in_front_of_two(**settings) as served,
        entered(served, (name, mode), WITHOUT_TENANT) as entry,
    ):
        listed = DOCUMENT_TOOL in (await entry.shown()).tools
        document = await entry.use("tool", DOCUMENT_TOOL, DOC_1)
        server = await entry.use("tool", "a:alpha")
    return listed, document.content is not None, server.reached


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("name", ENTRIES)
async def test_a_caller_without_a_tenant_gets_servers_but_no_documents(
    name: str, mode: str
) -> None:
    assert await seen(name, mode) == (False, False, "alpha of a")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("name", ENTRIES)
async def test_a_caller_without_a_tenant_gets_the_documents_of_the_default_one(
    name: str, mode: str
) -> None:
    assert await seen(name, mode, default_tenant_id="tenant_1") == (True, True, "alpha of a")


async def test_a_stated_tenant_overrides_the_default_one() -> None:
    async with (
        serving(default_tenant_id="tenant_1") as served,
        entered(served, ("mcp", "auto"), Who("tenant_2")) as entry,
    ):
        used = await entry.use("tool", DOCUMENT_TOOL, DOC_1)
    assert (used.content, "ACCESS_DENIED" in used.answer) == (None, True)


@pytest.mark.e2e
@pytest.mark.parametrize("default", ["", "tenant_1"])
async def test_over_stdio_the_default_tenant_applies_too(default: str) -> None:
    environment = {"MCP_PROXY_DEFAULT_TENANT_ID": default}
    async with by_stdio("auto", WITHOUT_TENANT, environment) as client:
        entry = ByMcp(client)
        listed = DOCUMENT_TOOL in (await entry.shown()).tools
        used = await entry.use("tool", DOCUMENT_TOOL, DOC_1)
    assert (listed, used.content is not None) == (bool(default), bool(default))
