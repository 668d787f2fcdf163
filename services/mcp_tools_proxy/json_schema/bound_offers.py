"""What of a server's offer can be used with its bound arguments, and how its schemas are shown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.offers.bindings import Binding, ServerBindings
from mcp_tools_proxy.domain.offers.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.offers.snapshot import Snapshot
from mcp_tools_proxy.json_schema.bound_properties import NamedElsewhere, without_property
from mcp_tools_proxy.wire.text import quote


class HeldBack(NamedTuple):
    """An item that is not offered, because an argument of it cannot be bound."""

    server_id: str
    kind: Kind
    name: str
    reason: str

    @property
    def key(self) -> DefinitionKey:
        """The key of its definition."""
        return DefinitionKey(self.server_id, DefinitionKind(self.kind.value), self.name)


class BoundSchema(NamedTuple):
    """A schema without the bound properties, and the bindings that it has properties for."""

    schema: JsonObject
    bindings: tuple[Binding, ...]


def bound_schema(schema: JsonObject, bindings: Sequence[Binding]) -> BoundSchema:
    """Remove the bound properties from a schema. Raises NamedElsewhere."""
    applied = []
    for binding in bindings:
        changed = without_property(schema, binding.path)
        if changed is not None:
            schema = changed
            applied.append(binding)
    return BoundSchema(schema, tuple(applied))


def bound_names(prompt: JsonObject, bindings: Sequence[Binding]) -> tuple[Binding, ...]:
    """Return the bindings that a prompt has arguments for; its arguments are not nested."""
    listed = cast("Sequence[Mapping[str, Any]]", prompt.get("arguments") or ())
    names = {argument["name"] for argument in listed}
    return tuple(it for it in bindings if len(it.path) == 1 and it.path[0] in names)


def find_held_back(
    snapshots: Mapping[str, Snapshot], bindings: Mapping[str, ServerBindings]
) -> tuple[HeldBack, ...]:
    """Return the tools and prompts that may not be offered, with the reasons."""
    return tuple(
        HeldBack(server_id, kind, name, reason)
        for server_id, bound in bindings.items()
        if server_id in snapshots
        for kind, name, reason in _held_back(snapshots[server_id], bound)
    )


def unmatched_bindings(
    snapshots: Mapping[str, Snapshot], bindings: Mapping[str, ServerBindings]
) -> Iterator[tuple[str, Binding]]:
    """Yield each binding, with its server, that no tool and no prompt has an argument for."""
    for server_id, bound in bindings.items():
        snapshot = snapshots.get(server_id)
        if snapshot is None:
            continue
        for binding in bound.bindings:
            prompts = (bound_names(prompt, [binding]) for prompt in snapshot.prompts.values())
            tools = (_has(tool, binding) for tool in snapshot.tools.values())
            if not any(prompts) and not any(tools):
                yield server_id, binding


def _held_back(snapshot: Snapshot, bound: ServerBindings) -> Iterator[tuple[Kind, str, str]]:
    for name, tool in snapshot.tools.items():
        reason = _problem_of_tool(tool, bound)
        if reason is not None:
            yield Kind.TOOL, name, reason
    for name, prompt in snapshot.prompts.items():
        applied = bound_names(prompt, bound.bindings)
        if bound.required and len(applied) < len(bound.bindings):
            yield Kind.PROMPT, name, _lacks(bound, applied)


def _problem_of_tool(tool: JsonObject, bound: ServerBindings) -> str | None:
    applied: list[Binding] = []
    for binding in bound.bindings:
        try:
            found = bound_schema(_schema_of(tool), [binding])
        except NamedElsewhere:
            return (
                f"{quote(binding.text)} is bound, but the inputSchema also refers to it "
                "outside properties"
            )
        applied += found.bindings
    if bound.required and len(applied) < len(bound.bindings):
        return _lacks(bound, applied)
    return None


def _lacks(bound: ServerBindings, applied: Sequence[Binding]) -> str:
    lacking = next(it for it in bound.bindings if it not in applied)
    return f"it lacks the argument {quote(lacking.text)}, which bindRequired requires"


def _has(tool: JsonObject, binding: Binding) -> bool:
    try:
        return bool(bound_schema(_schema_of(tool), [binding]).bindings)
    except NamedElsewhere:
        return True


def _schema_of(tool: JsonObject) -> JsonObject:
    return cast("JsonObject", tool.get("inputSchema") or {})
