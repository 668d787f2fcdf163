"""Permissions of callers, from the agent's profile, the tenant, and the documents."""

from collections.abc import Mapping
from dataclasses import field

from mcp_tools_proxy.domain.audit import SETTINGS, RuleSource
from mcp_tools_proxy.domain.caller import NO_TENANT, Caller, narrow_documents
from mcp_tools_proxy.domain.errors import AgentNotFound, AgentRequired, ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.visibility import Permissions, Visibility
from mcp_tools_proxy.wire.text import quote

THERE_ARE_PROFILES = RuleSource("agents.json", "$.agents")
"""The default rule that calls must name an agent."""

AGENT_IS_REQUIRED = RuleSource(SETTINGS, "MCP_PROXY_REQUIRE_AGENT")
"""The rule if the setting requires an agent."""


WITHOUT_AGENT = Permissions()
WITHOUT_AGENT_OR_TENANT = Permissions(has_tenant=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """Determines callers' permissions; by default all callers may use everything.

    ``agents`` are the compiled policies by agent name, None for an invalid agents.json. With
    ``agent_required``, ``agent_rule`` refuses a caller without an agent.
    """

    agents: Mapping[str, Visibility] | None = field(default_factory=dict)
    agent_required: bool = False
    agent_rule: RuleSource = THERE_ARE_PROFILES

    def permissions_of(self, caller: Caller) -> Permissions:
        """Return the caller's permissions. Raises AgentNotFound, AgentRequired."""
        has_tenant = caller.tenant_id != NO_TENANT
        if caller.agent is None and not self.agent_required:
            if caller.documents is not None:
                return Permissions(has_tenant=has_tenant, documents=caller.documents)
            return WITHOUT_AGENT if has_tenant else WITHOUT_AGENT_OR_TENANT
        if self.agents is None:
            error = AgentRequired if caller.agent is None else AgentNotFound
            raise error("agents.json is invalid, so agents are unknown; ask an operator to fix it")
        if caller.agent is None:
            refusal = AgentRequired(
                "the request names no agent; set agent to a profile's name (over MCP: X-Agent-Id, "
                "/mcp/agents/{agent} or --agent; for a remote backend an operator sets "
                "MCP_PROXY_REMOTE_AGENT)"
            )
            refusal.rule = self.agent_rule
            raise refusal
        visibility = self.agents.get(caller.agent)
        if visibility is None:
            advice = "" if self.agent_required else ", or leave agent out"
            raise AgentNotFound(
                f"no agent profile is named {quote(caller.agent)}; "
                f"use a name from agents.json{advice}"
            )
        documents = narrow_documents(caller.documents, visibility.documents)
        return Permissions(caller.agent, visibility, has_tenant, documents)

    def has_one_document(self, caller: Caller) -> bool:
        """Return whether the caller may use exactly one document; False for an unknown agent."""
        try:
            return self.permissions_of(caller).has_one_document
        except ProxyError:
            return False


UNRESTRICTED = AccessRules()
