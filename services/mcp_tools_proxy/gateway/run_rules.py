"""The rules over calls and runs: labels of tools and policies, renewed with files and tools."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.agents import NO_AGENTS
from mcp_tools_proxy.config.limits import NO_LIMITS
from mcp_tools_proxy.config.policies import has_engine, policy_problem
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import (
    DOCUMENT_ARGUMENT,
    ComponentSpec,
    JsonObject,
    Tool,
)
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.run import NO_QUOTA, RunQuota, ToolLabels
from mcp_tools_proxy.gateway.fitted_labels import FittedLabels, fit_labels
from mcp_tools_proxy.policy.aliases import qualified_name
from mcp_tools_proxy.policy.cedar.fact_schema import PolicyAction, action_of
from mcp_tools_proxy.policy.runs.tool_labels import (
    READS,
    labels_of,
    labels_of_reading,
    labels_of_tool,
)
from mcp_tools_proxy.wire.text import quote

if TYPE_CHECKING:
    from mcp_tools_proxy.policy.cedar.active_policies import ActivePolicies


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """The labels of tools, the policies (None without a folder of policies), and limits of runs.

    With ``awaits_policies``, the policies of a folder could not be prepared yet. ``by_agent`` are
    the limits of agents with their own, ``quota`` those of the others.
    """

    labels: Mapping[str, ToolLabels] = field(default_factory=dict)
    policies: "ActivePolicies | None" = None
    awaits_policies: bool = False
    quota: RunQuota = NO_QUOTA
    by_agent: Mapping[str | None, RunQuota] = field(default_factory=dict)

    @property
    def has_policies(self) -> bool:
        """Whether calls need the decision of policies, also while it cannot be made."""
        return self.policies is not None or self.awaits_policies

    def labels_of(self, spec: ComponentSpec, *, completion: bool = False) -> ToolLabels:
        """Return the labels of a component, or of the completion of its arguments."""
        return labels_of(spec, self.labels, completion=completion)

    def quota_of(self, agent: str | None) -> RunQuota:
        """Return the limits of runs that this agent continues."""
        return self.by_agent.get(agent, self.quota)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """A policy of the active set; it waits until the tools of ``waits_for`` are known."""

    policy_id: str
    file: str
    mode: str
    waits: bool
    waits_for: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySetState:
    """The active set of policies; ``loaded`` is False until a set was valid.

    ``digest`` is the SHA-256 of all policies in hexadecimal, empty until then.
    """

    loaded: bool = False
    digest: str = ""
    policies: tuple[PolicyState, ...] = ()


_DOCUMENT: JsonObject = {"properties": {DOCUMENT_ARGUMENT: {"type": "string"}}}
"""The arguments of the gateway's own resources, which are pages of documents, in policies."""


class ActiveRunRules:
    """Holds the current rules. A call reads ``current`` once for each decision."""

    def __init__(self, local_tools: Iterable[Tool], quota: RunQuota = NO_QUOTA) -> None:
        """Initialize; ``quota`` are the limits of runs in the settings."""
        self.current = RunRules(quota=quota)
        self._quota = quota
        self._policy_problems: tuple[Problem, ...] = ()
        self._fitted = FittedLabels()
        self._local_tools = tuple(local_tools)
        self._known: tuple[object, ...] = ()
        self._known_labels: tuple[object, ...] = ()
        self._turn = asyncio.Lock()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of policies and labels that are valid, but do not fit the tools."""
        return self._fitted.problems + self._policy_problems

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Labels without a tool, and the policies that wait for servers.

        Calls in the scope of such a policy are refused until then.
        """
        policies = self.current.policies
        if policies is None:
            return self._fitted.warnings
        files = {it.policy_id: it.file for it in policies.written}
        return self._fitted.warnings + tuple(
            Problem(
                file=files[policy_id],
                path="$",
                message=f"policy {quote(policy_id)} waits for the tools of {', '.join(servers)}: "
                "calls in its scope are refused until then",
            )
            for policy_id, servers in policies.waiting.items()
            if servers
        )

    @property
    def policy_set(self) -> PolicySetState | None:
        """The active set of policies, for people; None without a folder of policies."""
        policies = self.current.policies
        if policies is None:
            return PolicySetState() if self.current.awaits_policies else None
        return PolicySetState(
            loaded=policies.loaded,
            digest=policies.digest.hex(),
            policies=tuple(
                PolicyState(
                    policy_id=it.policy_id,
                    file=it.file,
                    mode=it.mode.value,
                    waits=it.policy_id in policies.waiting,
                    waits_for=policies.waiting.get(it.policy_id, ()),
                )
                for it in policies.written
            ),
        )

    async def follow(self, config: ActiveConfig, snapshots: Mapping[str, Snapshot]) -> None:
        """Take over labels and policies, and prepare the policies for the servers' tools.

        Policies are validated in a thread: it takes milliseconds each. Until then the previous
        policies are active, and a tool that they do not know is unavailable; without any, every
        call is. One change at a time: while the offers of a server were prepared, new policies were
        loaded, and then replaced by the old ones.
        """
        async with self._turn:
            await self._follow(config, snapshots)

    async def _follow(self, config: ActiveConfig, snapshots: Mapping[str, Snapshot]) -> None:
        rules = self._without_policies(config)
        if config.policies.configured and self.current.policies is None:
            self.current = replace(rules, awaits_policies=True)
        await self._fit_labels(rules.labels, snapshots)
        rules = replace(rules, labels=self._fitted.labels)
        if not config.policies.configured:
            self.current, self._policy_problems, self._known = rules, (), ()
            return
        if not has_engine():  # a folder can be added after the start
            return
        known = (rules.labels, config.policies.written, config.server_ids, dict(snapshots))
        policies = self.current.policies
        if known != self._known:
            policies, self._policy_problems = await asyncio.to_thread(
                self._prepared, policies, config, rules.labels, snapshots
            )
            self._known = known
        self.current = replace(rules, policies=policies)

    async def _fit_labels(
        self, labels: Mapping[str, ToolLabels], snapshots: Mapping[str, Snapshot]
    ) -> None:
        # equal snapshots can differ in these: only a complete discovery shows missing tools
        states = {key: (it.is_remembered, *it.failed_lists) for key, it in snapshots.items()}
        known = (labels, dict(snapshots), states) if labels else ()
        if known == self._known_labels:
            return
        if labels:
            self._fitted = await asyncio.to_thread(
                fit_labels, labels, self._local_tools, dict(snapshots)
            )
        else:
            self._fitted = FittedLabels()
        self._known_labels = known

    def _without_policies(self, config: ActiveConfig) -> RunRules:
        quota = self._quota.within((config.limits.rules or NO_LIMITS).run)
        profiles = (config.agents or NO_AGENTS).profiles
        return RunRules(
            labels=config.labels.tools or {},
            quota=quota,
            by_agent={
                name: quota.within(it.run) for name, it in profiles.items() if it.run != NO_QUOTA
            },
        )

    def _prepared(
        self,
        before: "ActivePolicies | None",
        config: ActiveConfig,
        labels: Mapping[str, ToolLabels],
        snapshots: Mapping[str, Snapshot],
    ) -> "tuple[ActivePolicies, tuple[Problem, ...]]":
        from mcp_tools_proxy.policy.cedar.active_policies import (  # noqa: PLC0415 - an extra
            ActivePolicies,
            load_policies,
        )

        policies = load_policies(
            before or ActivePolicies(),
            config.policies.written,
            actions=self._actions(labels, config.server_ids, snapshots),
            servers=config.server_ids,
            undiscovered=frozenset(_undiscovered(config.server_ids, snapshots)),
        )
        return policies, tuple(policy_problem(it, it.file) for it in policies.problems)

    def _actions(
        self,
        labels: Mapping[str, ToolLabels],
        servers: Iterable[str],
        snapshots: Mapping[str, Snapshot],
    ) -> Iterator[PolicyAction]:
        """Yield what policies can name, also tools that no preset allows.

        Tools are last: a server can name one like another way to read, which has fewer labels.
        """
        for server_id in (None, *servers):
            for reading in READS:
                name = reading if server_id is None else qualified_name(server_id, reading)
                arguments = _DOCUMENT if name == "resources/read" else {}
                yield action_of(name, server_id, labels_of_reading(name, labels), arguments)
        for tool in self._local_tools:
            spec = tool.spec
            found = labels_of_tool(spec.name, None, labels)
            yield action_of(spec.name, None, found, spec.input_schema)
        for server_id, snapshot in snapshots.items():
            for written, descriptor in snapshot.tools.items():
                name, schema = qualified_name(server_id, written), descriptor.get("inputSchema")
                found = labels_of_tool(name, server_id, labels)
                yield action_of(
                    name, server_id, found, schema if isinstance(schema, Mapping) else {}
                )


def _undiscovered(servers: Iterable[str], snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    for server_id in servers:
        snapshot = snapshots.get(server_id)
        if snapshot is None or snapshot.lacks_list(Kind.TOOL):
            yield server_id
