"""What the pages of servers ask the API about, for people with the rights to see it."""

from collections.abc import Mapping
from typing import Any

from mcp_tools_proxy.console.page_request import PageRequest
from mcp_tools_proxy.domain.identity import OperatorRight

Calls = Mapping[str, Any]
"""Calls of one server in the last hour: total, errors, p50_ms, p99_ms."""


def is_for_all(page: PageRequest, right: OperatorRight) -> bool:
    """Return whether a person has a right for all tenants, as what concerns all of them needs."""
    return page.may(right) and page.tenant_id is None


async def calls_of_servers(page: PageRequest) -> Mapping[str, Calls] | None:
    """Return the calls of the last hour by server; None for who may not see them."""
    if not page.may(OperatorRight.AUDIT):
        return None
    overview = await page.api.get("/internal/mcp/overview", {"tenant_id": page.tenant_id})
    by_server = overview.get("calls", {}).get("by_server", ())
    return {it["server_id"]: it for it in by_server if "server_id" in it}
