"""Labels compared with the tools of servers: misspelt tools and targets of labels.json."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

from mcp_tools_proxy.config.json_file import first_problems, json_path
from mcp_tools_proxy.config.labels import LABELS_FILE
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject, Tool
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.run import ToolLabels
from mcp_tools_proxy.policy.runs.tool_labels import READS
from mcp_tools_proxy.wire.json_schema.keywords import References, applied_schemas
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

MAX_COMPARED = 300
"""Names that are compared with a misspelt one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLabels:
    """The labels by name, and the entries that do not fit their tools.

    ``problems`` are targets that are no argument of their tool: all its arguments are targets, as a
    misspelt target would let data go anywhere. ``warnings`` are entries for unknown tools.
    """

    labels: Mapping[str, ToolLabels] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class _WrongTarget:
    tool: str
    target: str
    arguments: frozenset[str]

    @property
    def problem(self) -> Problem:
        hint = did_you_mean(_closest(self.target, self.arguments))
        return Problem(
            file=LABELS_FILE,
            path=json_path(("tools", self.tool, "targets")),
            message=f"{quote(self.target)} is not an argument of the tool, so all its arguments "
            f"are targets{hint}",
        )


@dataclass(frozen=True, slots=True)
class _UnknownTool:
    name: str
    snapshot: Snapshot

    @property
    def warning(self) -> Problem:
        server, _, tool = self.name.partition(":")
        hint = did_you_mean(_closest(tool, self.snapshot.tools))
        return Problem(
            file=LABELS_FILE,
            path=json_path(("tools", self.name)),
            message=f"the server {quote(server)} has no tool {quote(tool)}, so the entry has no "
            f"effect{hint}",
        )


def fit_labels(
    configured: Mapping[str, ToolLabels],
    local_tools: Iterable[Tool],
    snapshots: Mapping[str, Snapshot],
) -> FittedLabels:
    """Compare the labels of labels.json with the known tools. Blocks: call it in a thread."""
    local = {it.spec.name: it.spec.input_schema for it in local_tools}
    labels = dict(configured)
    wrong: list[_WrongTarget] = []
    unknown: list[_UnknownTool] = []
    for name, found in configured.items():
        server, colon, tool = name.partition(":")
        snapshot = snapshots.get(server) if colon else None
        descriptor = None if snapshot is None else snapshot.tools.get(tool)
        if descriptor is not None:
            schema = descriptor.get("inputSchema")
        else:
            schema = local.get(name)
            if snapshot is not None and _lacks(snapshot, tool):
                unknown.append(_UnknownTool(name, snapshot))
        if not found.targets or not isinstance(schema, Mapping):
            continue
        arguments = frozenset(_arguments_of(schema))
        if other := sorted(found.targets - arguments):
            labels[name] = replace(found, targets=None)
            wrong += (_WrongTarget(name, it, arguments) for it in other)
    return FittedLabels(
        labels=labels,
        problems=first_problems(LABELS_FILE, wrong, lambda it: it.problem),
        warnings=first_problems(LABELS_FILE, unknown, lambda it: it.warning),
    )


def _lacks(snapshot: Snapshot, tool: str) -> bool:
    """Return whether a server was discovered completely, and offers no such tool."""
    is_known = not (
        snapshot.lacks_list(Kind.TOOL) or snapshot.failed_lists or snapshot.is_remembered
    )
    dropped = any(it.kind is Kind.TOOL and it.name == tool for it in snapshot.dropped)
    return is_known and not dropped and tool not in READS


def _arguments_of(schema: JsonObject) -> Iterator[str]:
    """Yield the arguments that an input schema declares, also through references and choices."""
    for node in applied_schemas([schema], References(schema)):
        if isinstance(properties := node.get("properties"), Mapping):
            yield from properties


def _closest(name: str, known: Iterable[str]) -> str | None:
    return closest_match(name, sorted(known), most_names=MAX_COMPARED)
