"""The Cedar schema of the facts that policies can read, made from the tools' input schemas."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain

from mcp_tools_proxy.domain.components import DOCUMENT_ARGUMENT, JsonObject
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.run import Label, ToolLabels
from mcp_tools_proxy.policy.cedar.condition_facts import RUN_COUNTS, Path


class ArgumentType(StrEnum):
    """The Cedar type of an argument; other arguments cannot be read by policies."""

    STRING = "String"
    LONG = "Long"
    BOOL = "Bool"
    DECIMAL = "decimal"
    """A JSON number, with up to four digits after the point."""
    STRINGS = "Set<String>"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAction:
    """A tool, or a way to read from a server, as policies see it.

    ``server`` is ``gateway`` for the gateway's own. ``types`` are the arguments with a type,
    ``required`` those that every call has. ``keys`` are the property names that the input schema
    declares at any depth; other keys of objects are values. With ``documents``, calls name a
    document.
    """

    name: str
    server: str
    labels: ToolLabels
    types: Mapping[str, ArgumentType]
    required: frozenset[str]
    keys: frozenset[str] = frozenset()
    documents: bool = False

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the action: its server and its labels."""
        return (f"server:{self.server}", *(f"label:{it}" for it in sorted(self.labels.labels)))


LOCAL_SERVER = "gateway"
"""The server of the gateway's own tools in policies."""


def action_of(
    name: str, server_id: str | None, labels: ToolLabels, schema: JsonObject
) -> PolicyAction:
    """Return the action of a tool with this input schema, or of another way to read."""
    types, required = argument_types(schema)
    return PolicyAction(
        name=name,
        server=server_id or LOCAL_SERVER,
        labels=labels,
        types=types,
        required=required,
        keys=frozenset(_declared_keys(schema)),
        documents=server_id is None and DOCUMENT_ARGUMENT in types,
    )


def _declared_keys(schema: object) -> Iterator[str]:
    stack = [schema]
    while stack:
        match stack.pop():
            case Mapping() as members:
                if isinstance(properties := members.get("properties"), Mapping):
                    yield from properties
                stack += members.values()
            case list() | tuple() as items:
                stack += items


_SCALARS = {
    "string": ArgumentType.STRING,
    "integer": ArgumentType.LONG,
    "boolean": ArgumentType.BOOL,
    "number": ArgumentType.DECIMAL,
}


def argument_types(schema: JsonObject) -> tuple[dict[str, ArgumentType], frozenset[str]]:
    """Return the types of a tool's arguments, and the names of those that every call has."""
    properties = schema.get("properties")
    types: dict[str, ArgumentType] = {}
    nullable: set[str] = set()
    for name, property_schema in (
        (properties or {}).items() if isinstance(properties, Mapping) else ()
    ):
        kinds = set(_kinds(property_schema))
        if "null" in kinds:
            nullable.add(name)
        kinds.discard("null")
        if len(kinds) == 1 and (kind := _type_of(kinds.pop())) is not None:
            types[name] = kind
    required = schema.get("required")
    names = required if isinstance(required, list | tuple) else ()
    return types, frozenset(it for it in names if it in types and it not in nullable)


def _type_of(kind: str) -> ArgumentType | None:
    return ArgumentType.STRINGS if kind == "strings" else _SCALARS.get(kind)


def _kinds(schema: object) -> Iterator[str]:
    """Yield the JSON types that a schema allows; ``other`` for those that have no Cedar type."""
    if not isinstance(schema, Mapping):
        yield "other"
        return
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list | tuple):
            for option in schema[key]:
                yield from _kinds(option)
            return
    if isinstance(choices := schema.get("enum"), list | tuple):
        yield from ("string" if isinstance(it, str) else "other" for it in choices)
        return
    written = schema.get("type")
    for kind in written if isinstance(written, list | tuple) else (written,):
        if kind == "array":
            items = set(_kinds(schema.get("items")))
            yield "strings" if items and items <= {"string", "integer", "number"} else "other"
        else:
            yield kind if kind in _SCALARS or kind == "null" else "other"


_COUNTS = tuple(("run", it) for it in RUN_COUNTS)


def schema_text(actions: Iterable[PolicyAction], paths: Collection[Path]) -> str:
    """Return the Cedar schema of the facts at ``paths``.

    With all counts and arguments, it grew with the square of the tools: a server with 4,000 kept
    each policy from being checked for ten seconds.
    """
    known = sorted(actions, key=lambda it: it.name)
    groups = sorted({*(f"label:{it}" for it in Label), *chain(*(it.groups for it in known))})
    counted = {it[2] for it in paths if it[:2] in _COUNTS}
    read = {it[1] for it in paths if it[0] in ("args", "origin") and len(it) > 1}
    counts = ", ".join(f"{_quoted(it.name)}: Long" for it in known if it.name in counted)
    totals = ", ".join(
        f"{_quoted(total)}: Long"
        for it in known
        for name, kind in sorted(it.types.items())
        if kind is ArgumentType.LONG and (total := f"{it.name}#{name}") in counted
    )
    return "\n".join(
        (
            "entity Tenant, Role, Agent;",
            "entity User in [Tenant, Role, Agent];",
            "entity Server;",
            "entity Document in [Server];",
            *(f"action {_quoted(it)};" for it in groups),
            f"type Counts = {{{counts}}};",
            f"type Totals = {{{totals}}};",
            "type Clock = {hour: Long, weekday: Long, at: datetime};",
            "type Run = {calls: Long, errors: Long, repeats: Long, tokens: Long, read_only: Bool,"
            " undeclared: Bool, seen: Set<String>, called: Counts, succeeded: Counts,"
            " total: Totals};",
            *(_action(it, read) for it in known),
        )
    )


def _action(action: PolicyAction, read: Collection[str]) -> str:
    groups = ", ".join(f"Action::{_quoted(it)}" for it in action.groups)
    args = ", ".join(
        f"{_quoted(name)}{'' if name in action.required else '?'}: {kind}"
        for name, kind in sorted(action.types.items())
        if name in read
    )
    origins = ", ".join(
        f"{_quoted(name)}: Set<String>" for name in sorted(action.types) if name in read
    )
    resource = "Document, Server" if action.documents else "Server"
    return (
        f"action {_quoted(action.name)} in [{groups}] appliesTo {{principal: [User], "
        f"resource: [{resource}], context: {{entry: String, clock: Clock, target: Set<String>, "
        f"embedded: Set<String>, run?: Run, origin: {{{origins}}}, args: {{{args}}}}}}};"
    )


_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')


def _quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(lambda it: f"\\u{{{ord(it[0]):x}}}", text) + '"'
