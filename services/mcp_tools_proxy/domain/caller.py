"""Who calls, and what for."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The tenant (owner of data and budgets) and the user a call is made for.

    ``agent`` names the agent profile that narrows what the caller may use; None means no agent.
    """

    tenant_id: str
    user_id: str
    roles: tuple[str, ...] = ()
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to run one tool, as received: ``arguments`` is unchecked JSON."""

    tool_name: str
    caller: Caller
    trace_id: str
    arguments: Mapping[str, object] = field(default_factory=dict)
