"""Callers of the facade that name no tenant: without document tools, unless there is a default."""

from typing import Any

import pytest

from tests.mcp_server.entries import HTTP_PATHS, ByMcp, Who, by_stdio, entered
from tests.support.http_api import DOC_1, DOCUMENT_TOOL
from tests.support.mcp_endpoint import ERAS, in_front_of_two, serving

WITHOUT_TENANT = Who(None, None)
ENTRIES = [name for name in HTTP_PATHS if not name.startswith("agents")]


async def seen(name: str, mode: str, **settings: Any) -> tuple[bool, bool, str | None]:
    """Come in without a tenant; tell what is listed and callable: documents, then a server."""
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
async def test_who_names_no_tenant_has_the_servers_and_no_documents(name: str, mode: str) -> None:
    assert await seen(name, mode) == (False, False, "alpha of a")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("name", ENTRIES)
async def test_who_names_no_tenant_has_the_documents_of_the_default_one(
    name: str, mode: str
) -> None:
    assert await seen(name, mode, default_tenant_id="tenant_1") == (True, True, "alpha of a")


async def test_a_tenant_that_is_named_counts_before_the_default_one() -> None:
    async with (
        serving(default_tenant_id="tenant_1") as served,
        entered(served, ("mcp", "auto"), Who("tenant_2")) as entry,
    ):
        used = await entry.use("tool", DOCUMENT_TOOL, DOC_1)
    assert (used.content, "ACCESS_DENIED" in used.answer) == (None, True)


@pytest.mark.e2e
@pytest.mark.parametrize("default", ["", "tenant_1"])
async def test_over_stdio_too_it_is_the_default_tenant_s_or_no_documents(default: str) -> None:
    environment = {"MCP_PROXY_DEFAULT_TENANT_ID": default}
    async with by_stdio("auto", WITHOUT_TENANT, environment) as client:
        entry = ByMcp(client)
        listed = DOCUMENT_TOOL in (await entry.shown()).tools
        used = await entry.use("tool", DOCUMENT_TOOL, DOC_1)
    assert (listed, used.content is not None) == (bool(default), bool(default))
