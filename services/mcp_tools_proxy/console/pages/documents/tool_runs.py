"""Runs the tools by which models use documents, for a caller who may read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_tools_proxy.console.api_client import TRIES_PATH, ApiRefused
from mcp_tools_proxy.console.page_request import PageRequest
from mcp_tools_proxy.console.tries.tool_caller import ToolCaller
from mcp_tools_proxy.domain.identity import OperatorRight

ANYBODY = "console"
"""The user in whose name a document is read that all of its tenant may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """What a tool has answered, and in how many milliseconds."""

    result: Mapping[str, Any]
    elapsed_ms: float


def user_of_tenant(
    page: PageRequest, tenant_id: str, user_id: str = "", roles: Sequence[str] = ()
) -> ToolCaller:
    """Return whom to run tools for: the named user, else anybody of the tenant.

    Who may not choose is the user himself.
    """
    if not page.may(OperatorRight.RUN):
        tenant_id, user_id = page.operator.own_name or (tenant_id, user_id)
        roles = ()
    return ToolCaller(
        tenant_id=tenant_id, user_id=user_id or ANYBODY, roles=roles, agent=page.agent()
    )


def reader_of(
    page: PageRequest, tenant_id: str, readers: Mapping[str, Sequence[str]] | None
) -> ToolCaller:
    """Return somebody who may read a document of these readers, if anybody may."""
    users, roles = (() if readers is None else readers[it] for it in ("users", "roles"))
    return user_of_tenant(page, tenant_id, users[0] if users else "", roles[:1])


async def run_tool(
    page: PageRequest, tool_name: str, arguments: Mapping[str, object], caller: ToolCaller
) -> ToolRun:
    """Run a tool. Raises ApiRefused, also for what the tool itself refuses."""
    body = {"tool_name": tool_name, "arguments": arguments, **caller.context}
    envelope = await page.api.post(TRIES_PATH, body)
    if envelope["status"] != "ok":
        raise ApiRefused(422, envelope["error"])
    return ToolRun(result=envelope["result"], elapsed_ms=envelope["elapsed_ms"])
