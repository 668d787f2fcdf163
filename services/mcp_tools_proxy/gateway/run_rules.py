"""The rules over calls and runs: labels of tools and policies, renewed with files and tools."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.policies import policy_problem
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import ComponentSpec, Tool
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.run import ToolLabels
from mcp_tools_proxy.policy.aliases import qualified_name
from mcp_tools_proxy.policy.cedar.fact_schema import PolicyAction, action_of
from mcp_tools_proxy.policy.runs.tool_labels import (
    READS,
    labels_of,
    labels_of_reading,
    labels_of_tool,
)

if TYPE_CHECKING:
    from mcp_tools_proxy.policy.cedar.active_policies import ActivePolicies


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """The labels of tools, and the policies; None without a folder of policies."""

    labels: Mapping[str, ToolLabels] = field(default_factory=dict)
    policies: "ActivePolicies | None" = None

    def labels_of(self, spec: ComponentSpec, *, completion: bool = False) -> ToolLabels:
        """Return the labels of a component, or of the completion of its arguments."""
        return labels_of(spec, self.labels, completion=completion)


class ActiveRunRules:
    """Holds the current rules. A call reads ``current`` once for each decision."""

    def __init__(self, local_tools: Iterable[Tool]) -> None:
        self.current = RunRules()
        self.problems: tuple[Problem, ...] = ()
        """The problems of policies that are valid Cedar, but do not fit the tools."""
        self._local_tools = tuple(local_tools)
        self._known: tuple[object, ...] = ()

    async def follow(self, config: ActiveConfig, snapshots: Mapping[str, Snapshot]) -> None:
        """Take over labels and policies, and prepare the policies for the servers' tools.

        Policies are validated in a thread: it takes milliseconds each. Until then the previous
        rules hold, and a tool that they do not know is unavailable.
        """
        labels = config.labels.tools or {}
        if not config.policies.configured:
            self.current, self.problems, self._known = RunRules(labels=labels), (), ()
            return
        known = (labels, config.policies.written, config.server_ids, dict(snapshots))
        if known == self._known:
            return
        self.current, self.problems = await asyncio.to_thread(
            self._prepared, self.current, config, labels, snapshots
        )
        self._known = known

    def _prepared(
        self,
        before: RunRules,
        config: ActiveConfig,
        labels: Mapping[str, ToolLabels],
        snapshots: Mapping[str, Snapshot],
    ) -> tuple[RunRules, tuple[Problem, ...]]:
        from mcp_tools_proxy.policy.cedar.active_policies import (  # noqa: PLC0415 - an extra
            ActivePolicies,
            load_policies,
        )

        policies = load_policies(
            before.policies or ActivePolicies(),
            config.policies.written,
            actions=self._actions(labels, config.server_ids, snapshots),
            servers=config.server_ids,
            undiscovered=frozenset(_undiscovered(config.server_ids, snapshots)),
        )
        problems = tuple(policy_problem(it, it.file) for it in policies.problems)
        return RunRules(labels=labels, policies=policies), problems

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
                yield action_of(name, server_id, labels_of_reading(name, labels), {})
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
