"""Who calls, and what for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """The three kinds of component that MCP knows."""

    TOOL = "tool"
    PROMPT = "prompt"
    RESOURCE = "resource"


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
    """One request to use one component, as received: ``arguments`` is unchecked JSON.

    ``name`` is a tool's or prompt's name as the caller spells it, or a resource's URI.
    """

    name: str
    caller: Caller
    trace_id: str
    kind: Kind = Kind.TOOL
    arguments: Mapping[str, object] = field(default_factory=dict)
    trace_context: Mapping[str, str] = field(default_factory=dict)
    """W3C headers of the request (``traceparent``, ``tracestate``, ``baggage``), passed on."""
