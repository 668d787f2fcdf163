"""Runs the tools by which models use documents, in the name of a user who may read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_tools_proxy.console.api_client import EXECUTE_PATH, TRIES_PATH, ApiRefused
from mcp_tools_proxy.console.page_request import PageRequest
from mcp_tools_proxy.domain.identity import OperatorRight

STAND_IN = "console"
"""The user in whose name a document is asked that all of its tenant may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUser:
    """Whom a tool is run for."""

    tenant_id: str
    user_id: str = STAND_IN
    roles: Sequence[str] = ()

    @property
    def as_user(self) -> Mapping[str, object]:
        """The user as a request names it."""
        roles = {"roles": [*self.roles]} if self.roles else {}
        return {"tenant_id": self.tenant_id, "user_id": self.user_id, **roles}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """What a tool has answered, and in how many milliseconds, if that is known."""

    result: Mapping[str, Any]
    elapsed_ms: float | None


def may_run(page: PageRequest) -> bool:
    """Return whether the person may run tools: for others, or by a JWT as himself."""
    return page.may(OperatorRight.RUN) or page.operator.jwt is not None


def stand_in(page: PageRequest, tenant_id: str, user_id: str, roles: Sequence[str]) -> ToolUser:
    """Return whom to run tools for; without the right to choose it is the person himself."""
    operator = page.operator
    if not page.may(OperatorRight.RUN) and operator.user_id is not None:
        return ToolUser(tenant_id=tenant_id, user_id=operator.user_id, roles=operator.roles)
    return ToolUser(tenant_id=tenant_id, user_id=user_id or STAND_IN, roles=roles)


def reader_of(
    page: PageRequest, tenant_id: str, readers: Mapping[str, Sequence[str]] | None
) -> ToolUser:
    """Return somebody who may read a document of these readers, if anybody may."""
    users, roles = (() if readers is None else readers[it] for it in ("users", "roles"))
    return stand_in(page, tenant_id, users[0] if users else "", roles[:1])


async def run_tool(
    page: PageRequest, tool_name: str, arguments: Mapping[str, object], user: ToolUser
) -> ToolRun:
    """Run a tool. Raises ApiRefused, also for what the tool itself refuses.

    Who may run nothing as somebody else makes the call himself: ``user`` is then who signed in.
    """
    body = {"tool_name": tool_name, "arguments": arguments, "user": user.as_user}
    path = TRIES_PATH if page.may(OperatorRight.RUN) else EXECUTE_PATH
    envelope = await page.api.post(path, body)
    if envelope["status"] != "ok":
        raise ApiRefused(422, envelope["error"])
    return ToolRun(result=envelope["result"], elapsed_ms=envelope.get("elapsed_ms"))
