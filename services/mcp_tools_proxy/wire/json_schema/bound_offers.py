"""Items that can be used with bound arguments, and schemas without the bound properties.

A schema that names a bound property elsewhere (in alternatives, conditions, dependencies) is
refused: it would still offer the property to models, which cannot set it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from mcp_tools_proxy.domain.bindings import Binding, ServerBindings
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.wire.json_schema.keywords import ANNOTATIONS, Node, References
from mcp_tools_proxy.wire.text import quote


class HeldBack(NamedTuple):
    """An item that is not offered, because one of its arguments cannot be bound."""

    server_id: str
    kind: Kind
    name: str
    reason: str

    @property
    def key(self) -> DefinitionKey:
        """The key of its definition."""
        return DefinitionKey(self.server_id, DefinitionKind(self.kind.value), self.name)


class BoundSchema(NamedTuple):
    """A schema without the bound properties, and the bindings that matched a property."""

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
    """Return the bindings that match an argument of a prompt; its arguments are not nested."""
    listed = cast("Sequence[Mapping[str, Any]]", prompt.get("arguments") or ())
    names = {argument["name"] for argument in listed}
    return tuple(it for it in bindings if len(it.path) == 1 and it.path[0] in names)


def find_held_back(
    snapshots: Mapping[str, Snapshot], bindings: Mapping[str, ServerBindings]
) -> tuple[HeldBack, ...]:
    """Return the tools and prompts that must not be offered, with the reasons."""
    return tuple(
        HeldBack(server_id, kind, name, reason)
        for server_id, bound in bindings.items()
        if server_id in snapshots
        for kind, name, reason in _held_back(snapshots[server_id], bound)
    )


def unmatched_bindings(
    snapshots: Mapping[str, Snapshot], bindings: Mapping[str, ServerBindings]
) -> Iterator[tuple[str, Binding]]:
    """Yield server and binding of bindings without a matching tool or prompt."""
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


_DECLARING = ANNOTATIONS | {"properties", "required", "type", "$defs", "definitions", "$schema"}
"""Keywords of an object's schema that are not searched for other uses of a property."""

_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
"""References whose target depends on the path to them; they are not followed."""

_DEFINITION = re.compile(r"#/(\$defs|definitions)/([^/]+)(?:/.*)?")


class NamedElsewhere(Exception):
    """The schema names the property outside ``properties``."""


def without_property(schema: Node, path: tuple[str, ...]) -> Node | None:
    """Return a schema without the property at ``path``; None if the property is missing.

    The path follows ``properties`` and references within the schema. Raises NamedElsewhere.
    """
    changed = _without(schema, path, References(schema))
    return None if changed is None else _without_unused_definitions(changed)


def _without(node: Node, path: tuple[str, ...], references: References) -> dict[str, Any] | None:
    name, *rest = path
    inlined = _inlined(node, references)
    others = {key: inlined[key] for key in inlined.keys() - _DECLARING}
    if _mentions(others, name, references):
        raise NamedElsewhere
    properties = inlined.get("properties")
    if not isinstance(properties, Mapping) or name not in properties:
        return None
    if not rest:
        return _dropped(inlined, properties, name)
    inner = properties[name]
    changed = _without(inner, tuple(rest), references) if isinstance(inner, Mapping) else None
    if changed is None:
        return None
    return {**inlined, "properties": {**properties, name: changed}}


def _dropped(node: Node, properties: Node, name: str) -> dict[str, Any]:
    changed = {**node, "properties": {key: properties[key] for key in properties if key != name}}
    required = node.get("required")
    if isinstance(required, list):
        changed["required"] = [key for key in required if key != name]
        if not changed["required"]:  # draft 4 allows no empty list
            del changed["required"]
    return changed


def _inlined(node: Node, references: References) -> Node:
    """Return a node with its reference replaced by a copy of the target.

    Raises NamedElsewhere if that is ambiguous.
    """
    followed: set[str] = set()
    while "$ref" in node:
        place, target = references.find(node["$ref"]) or ("", False)
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        if isinstance(target, bool) or place in followed:
            raise NamedElsewhere
        if (siblings.keys() - ANNOTATIONS) & target.keys():
            raise NamedElsewhere
        followed.add(place)
        node = {**target, **siblings}
    return node


def _mentions(value: object, name: str, references: References) -> bool:
    seen: set[str] = set()
    parts: list[object] = [value]
    for part in parts:  # the loop appends to it
        if isinstance(part, list):
            parts += part
        elif not isinstance(part, Mapping):
            if part == name:
                return True
        elif name in part or _has_pattern_for(part.get("patternProperties"), name):
            return True
        else:
            parts += part.values()
            parts += _targets(part, references, seen, unknown=name)
    return False


def _targets(node: Node, references: References, seen: set[str], *, unknown: str) -> list[object]:
    """Return the node's unseen reference targets; ``unknown`` for an unresolvable one."""
    if not _DYNAMIC.isdisjoint(node):
        return [unknown]
    if not isinstance(node.get("$ref"), str):
        return []
    found = references.find(node["$ref"])
    if found is None:
        return [unknown]
    place, target = found
    if place in seen:
        return []
    seen.add(place)
    return [target]


def _has_pattern_for(patterns: object, name: str) -> bool:
    """Return whether a pattern can match the name; True if Python cannot compile it."""
    for pattern in patterns if isinstance(patterns, Mapping) else ():
        try:
            if re.search(pattern, name):
                return True
        except re.error:
            return True
    return False


def _without_unused_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without unused definitions, which could name the property."""
    tables = [key for key in ("$defs", "definitions") if isinstance(schema.get(key), Mapping)]
    if not tables:
        return schema
    used: set[tuple[str, str]] = set()
    waiting: list[object] = [{key: schema[key] for key in schema if key not in tables}]
    for part in waiting:  # the loop appends to it
        for reference in _references_in(part):
            found = _DEFINITION.fullmatch(reference)
            if found is None:
                return schema
            place = (found[1], found[2].replace("~1", "/").replace("~0", "~"))
            if place not in used and place[1] in schema.get(place[0], {}):
                used.add(place)
                waiting.append(schema[place[0]][place[1]])
    pruned = dict(schema)
    for table in tables:
        pruned[table] = {k: v for k, v in schema[table].items() if (table, k) in used}
        if not pruned[table]:
            del pruned[table]
    return pruned


def _references_in(value: object) -> Iterator[str]:
    parts: list[object] = [value]
    for part in parts:  # the loop appends to it
        if isinstance(part, Mapping):
            parts += part.values()
            for key in ("$ref", *_DYNAMIC):
                if isinstance(reference := part.get(key), str):
                    yield reference
        elif isinstance(part, list):
            parts += part
