from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.run import Label, RunRequest, ToolLabels
from mcp_tools_proxy.policy.cedar.active_policies import ActivePolicies, load_policies
from mcp_tools_proxy.policy.cedar.call_facts import PolicyCall
from mcp_tools_proxy.policy.cedar.fact_schema import PolicyAction, action_of
from mcp_tools_proxy.policy.cedar.policy_set import PolicyVerdict
from mcp_tools_proxy.policy.cedar.written_policy import read_policies
from mcp_tools_proxy.policy.runs.run_memory import RunMemory

NOW = datetime(2026, 11, 30, 9, 15, tzinfo=UTC)  # a Monday

_PROPERTIES = {
    "to": {"type": "string"},
    "cc": {"type": "array", "items": {"type": "string"}},
    "cents": {"type": "integer"},
    "price": {"type": "number"},
    "urgent": {"type": "boolean"},
    "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "kind": {"enum": ["a", "b"]},
    "extra": {"type": "object", "properties": {"name": {"type": "string"}}},
}


def action(name: str, labels: ToolLabels, required: Iterable[str] = ()) -> PolicyAction:
    server = name.partition(":")[0] if ":" in name else None
    schema = {"type": "object", "properties": _PROPERTIES, "required": [*required]}
    return action_of(name, server, labels, schema)


SEND = action(
    "mail:send", ToolLabels(labels=frozenset({Label.SENDS}), targets=frozenset({"to", "extra"}))
)
READ = action("crm:get", ToolLabels(labels=frozenset({Label.READS_PRIVATE}), identifiers=("id",)))


def load(
    text: str,
    before: ActivePolicies | None = None,
    *,
    actions: Iterable[PolicyAction] = (SEND, READ),
    undiscovered: Iterable[str] = (),
) -> ActivePolicies:
    return load_policies(
        before or ActivePolicies(),
        read_policies("a.cedar", text),
        actions=actions,
        servers=["mail", "crm", *undiscovered],
        undiscovered=undiscovered,
    )


def forbid(condition: str, *annotations: str, scope: str = 'action == Action::"mail:send"') -> str:
    notes = " ".join(('@id("p")', *annotations))
    return f"{notes} forbid(principal, {scope}, resource) when {{ {condition} }};"


def call(
    arguments: Mapping[str, object],
    *,
    of: PolicyAction = SEND,
    roles: tuple[str, ...] = (),
    agent: str | None = None,
) -> PolicyCall:
    caller = Caller(tenant_id="acme", user_id="ann", roles=roles, agent=agent)
    return PolicyCall(caller=caller, entry="api", action=of, arguments=arguments, now=NOW)


def run(task: str = "write to bob@x.com") -> RunMemory:
    memory = RunMemory()
    memory.declare(RunRequest(run_id="r", task=task))
    return memory


def verdict(
    text: str, arguments: Mapping[str, object], memory: RunMemory | None = None
) -> PolicyVerdict:
    active = load(text)
    assert not active.problems, [it.problem for it in active.problems]
    return active.decide(call(arguments), memory)


def refuses(found: PolicyVerdict) -> bool:
    """Return whether the call is not made now."""
    return any((found.enforced, found.approve, found.failed, found.run_required, found.unavailable))
