"""Who may use what of a registry: the agents by name, and what nobody may see."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import AgentNotFound, AgentRequired
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.registry.table import WITHOUT_AGENT, WITHOUT_AGENT_OR_TENANT, Viewer
from mcp_tools_proxy.wire.text import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may use what, of all that a registry has; the default is that all may use it.

    ``agents`` are the profiles by name, None while nobody can know them. With ``agent_required``
    nothing may be used without one. ``exclude`` is what nobody may see of a server (A-01), by its
    id: it concerns URIs that a template stands for; whatever is listed was left out before.
    ``servers`` are the ids of all servers that mcp.json has, there or not.
    """

    agents: Mapping[str, Visibility] | None = field(default_factory=dict)
    agent_required: bool = False
    exclude: Mapping[str, Exclusions] = field(default_factory=dict)
    servers: Container[str] = ()

    def viewer_for(self, caller: Caller) -> Viewer:
        """Give whom to answer. Raises AgentNotFound, AgentRequired."""
        has_tenant = caller.tenant_id != NO_TENANT
        if caller.agent is None and not self.agent_required:
            return WITHOUT_AGENT if has_tenant else WITHOUT_AGENT_OR_TENANT
        if self.agents is None:
            error = AgentRequired if caller.agent is None else AgentNotFound
            raise error("agents.json has problems, so no agent is known: have an operator mend it")
        if caller.agent is None:
            raise AgentRequired(
                "the request names no agent: set agent (over MCP X-Agent-Id, the path "
                "/mcp/agents/{agent} or the option --agent; for a remote backend an operator sets "
                "MCP_PROXY_REMOTE_AGENT) to the name of a profile"
            )
        visibility = self.agents.get(caller.agent)
        if visibility is None:
            ways_out = "" if self.agent_required else ", or leave agent out"
            raise AgentNotFound(
                f"no agent profile is named {quote(caller.agent)}; "
                f"name one that agents.json has{ways_out}"
            )
        return Viewer(caller.agent, visibility, has_tenant)


UNRESTRICTED = Access()
