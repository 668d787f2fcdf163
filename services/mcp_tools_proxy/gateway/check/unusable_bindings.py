"""Finds bound arguments that cannot be bound, or that nothing has.

A tool with such an argument is hidden; a path that nothing has is most often a typing mistake, and
what it was meant to bind is the model's choice.
"""

from collections.abc import Iterable, Iterator, Mapping

from mcp_tools_proxy.config.json_file import json_path, limit_problems
from mcp_tools_proxy.config.loader import AGENTS_FILE, CONFIGURATION_FILE
from mcp_tools_proxy.config.server_names import at_names
from mcp_tools_proxy.domain.configuration import Agents, Configuration, Problem
from mcp_tools_proxy.domain.offers.snapshot import Snapshot
from mcp_tools_proxy.json_schema.bound_offers import HeldBack, unmatched_bindings
from mcp_tools_proxy.registry.shown_tools import BoundAgents
from mcp_tools_proxy.wire.text import quote


def find_unusable_bindings(
    *,
    agents: Agents,
    configuration: Configuration,
    snapshots: Mapping[str, Snapshot],
    held_back: Iterable[HeldBack],
    bound_agents: BoundAgents,
) -> tuple[Problem, ...]:
    """Return a warning for each item that is hidden for its bindings, and for each idle binding."""
    return (
        *limit_problems(
            CONFIGURATION_FILE,
            at_names(_of_servers(configuration, snapshots, held_back), configuration.original_ids),
        ),
        *limit_problems(AGENTS_FILE, tuple(_of_agents(agents, bound_agents))),
    )


def _of_servers(
    configuration: Configuration, snapshots: Mapping[str, Snapshot], held_back: Iterable[HeldBack]
) -> Iterator[Problem]:
    for it in held_back:
        path = json_path(("mcpServers", it.server_id, "bind"))
        message = f"{it.kind.value} {quote(it.name)} is hidden: {it.reason}"
        yield Problem(file=CONFIGURATION_FILE, path=path, message=message)
    for server_id, binding in unmatched_bindings(snapshots, configuration.bindings):
        path = json_path(("mcpServers", server_id, "bind", binding.text))
        message = "has no effect: none of the server's tools and prompts takes this argument"
        yield Problem(file=CONFIGURATION_FILE, path=path, message=message)


def _of_agents(agents: Agents, bound_agents: BoundAgents) -> Iterator[Problem]:
    places = {name: index for index, name in enumerate(agents.profiles)}
    for agent, tool in bound_agents.problems():
        path = json_path(("agents", places[agent], "bind", tool))
        message = (
            "hides the tool from the agent: the tool does not take this argument, refers to it "
            "outside properties, or mcp.json binds it to another value"
        )
        yield Problem(file=AGENTS_FILE, path=path, message=message)
