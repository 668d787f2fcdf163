"""Schemas in MCP lists: clients reject a whole list for one schema that they cannot read.

Measured with clients of the TypeScript SDK, which compile each ``outputSchema`` with Ajv, and
require objects as values of ``properties``.

A tool with an unsatisfiable schema cannot be called. ``why_nothing_satisfies`` finds the cases that
servers send (a forbidden required property), not all contradictions.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcp_tools_proxy.wire.json_schema.keywords import (
    NAMED_SCHEMAS,
    Node,
    References,
    map_subschemas,
    subschemas,
)
from mcp_tools_proxy.wire.json_schema.validator import BrokenSchema, compile_check
from mcp_tools_proxy.wire.text import quote

_ESCAPE = (
    r"\\(?:[dDwWsSbBtnvfr0^$\\.*+?()\[\]{}|/]|c[A-Za-z]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}"
    r"|u\{[0-9A-Fa-f]+\}|[pP]\{[A-Za-z_=0-9]+\}|[1-9][0-9]*(?![0-9])|k<[^>]+>)"
)
_CLASS = rf"\[\^?(?:[^\\\]]|\\-|{_ESCAPE})*\]"
_GROUP = r"\((?:\?(?:[:=!]|<[=!]|<[A-Za-z_$][A-Za-z0-9_$]*>))?(?![*+?])"
_QUANTIFIER = r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??(?![*+?{])"
_JAVASCRIPT_TOKEN = re.compile(
    rf"{_ESCAPE}|{_CLASS}|{_GROUP}|{_QUANTIFIER}|[|^$.)]|[^\\\[\](){{}}*+?|^$.]", re.DOTALL
)
"""Matches one token of a pattern with the flag ``u``."""

_MAY_BE_NULL = frozenset({"const", "default", "example"})
"""Keywords whose value is a plain value instead of a schema or a rule."""

_CLASS_IN_RANGE = re.compile(r"\\[dDwWsS]-[^\]]|[^\[\\^]-\\[dDwWsS]")


def output_schema_problem(schema: Mapping[str, object]) -> str | None:
    """Return why an output schema cannot be listed; None if clients can compile it."""
    try:
        compile_check(schema)
    except BrokenSchema as error:
        return error.reason.replace("its inputSchema ", "it ", 1)
    names: set[str] = set()
    return next(filter(None, (_client_problem(node, names) for node in nodes_of(schema))), None)


def nodes_of(schema: Node) -> Iterator[Node]:
    """Yield a schema and all schemas in it."""
    nodes: list[Any] = [schema]
    for node in nodes:  # the loop appends to it
        if isinstance(node, Mapping):
            yield node
            nodes += subschemas(node)


def _client_problem(node: Node, names: set[str]) -> str | None:
    if "id" in node:
        return "it has the keyword id of draft 4"
    if node.get("enum") == []:
        return "it has an enum without values"
    if isinstance(node.get("exclusiveMinimum", node.get("exclusiveMaximum")), bool):
        return "it has an exclusive bound of draft 4"
    if "nullable" in node and ("type" not in node or node["nullable"] is not True):
        return "it has a nullable without a type"
    for key in ("$id", "$anchor", "$dynamicAnchor"):
        if (name := node.get(key)) is not None:
            if str(name) in names:
                return f"it has the name {quote(str(name))} twice"
            names.add(str(name))
    return _pattern_problem(node)


def _pattern_problem(node: Node) -> str | None:
    named = node.get("patternProperties")
    patterns = [*(named if isinstance(named, Mapping) else ()), node.get("pattern")]
    for pattern in patterns:
        if isinstance(pattern, str) and not _is_javascript(pattern):
            return f"JavaScript does not accept its pattern {quote(pattern)}"
    return None


def _is_javascript(pattern: str) -> bool:
    end = 0
    # A possessive repeat of the tokens would suffice, but Python 3.11.2 has a bug in a++
    # (gh-106052).
    while token := _JAVASCRIPT_TOKEN.match(pattern, end):
        end = token.end()
    return end == len(pattern) and not _CLASS_IN_RANGE.search(pattern)


def with_object_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace boolean schemas in ``properties`` by equivalent objects, at any depth.

    Returns the same object if nothing changes.
    """
    if not any(_has_boolean_property(node) for node in nodes_of(schema)):
        return schema
    written: Mapping[str, Any] = _with_objects(schema)
    return written


def _has_boolean_property(node: Node) -> bool:
    properties = node.get("properties")
    return isinstance(properties, Mapping) and any(type(it) is bool for it in properties.values())


def _with_objects(node: Any) -> Any:
    if not isinstance(node, Mapping):
        return node
    written = map_subschemas(node, _with_objects)
    if isinstance(properties := written.get("properties"), Mapping):
        written["properties"] = {name: _as_object(it) for name, it in properties.items()}
    return written


def _as_object(schema: Any) -> Any:
    if type(schema) is not bool:
        return schema
    return {} if schema else {"not": {}}


def without_null_keywords(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without null keywords, which mean absent, at any depth.

    Some servers write all fields of their schema type (``"required": null``). ``const`` and
    ``default`` can be null, and a property with a null schema accepts any value. Returns the same
    object if unchanged.
    """
    if not any(map(_has_null, nodes_of(schema))):
        return schema
    written: Mapping[str, Any] = _without_nulls(schema)
    return written


def _has_null(node: Node) -> bool:
    tables = (node[key] for key in NAMED_SCHEMAS.intersection(node))
    return any(_is_absent(key, value) for key, value in node.items()) or any(
        None in table.values() for table in tables if isinstance(table, Mapping)
    )


def _is_absent(key: str, value: object) -> bool:
    return value is None and key not in _MAY_BE_NULL and not key.startswith("x-")


def _without_nulls(node: Any) -> Any:
    if not isinstance(node, Mapping):
        return node
    kept = {key: value for key, value in node.items() if not _is_absent(key, value)}
    for key in NAMED_SCHEMAS.intersection(kept):
        if isinstance(table := kept[key], Mapping):
            kept[key] = {name: {} if it is None else it for name, it in table.items()}
    return map_subschemas(kept, _without_nulls)


MAX_DEPTH = 16
"""Searched levels of schemas; a deeper one counts as satisfiable."""

MAX_NODES = 2_000
"""Searched schemas: nested references with fifty branches each would take exponential time."""

_EVERYTHING: Sequence[Any] = (True, {})


def why_nothing_satisfies(schema: Mapping[str, Any]) -> str | None:
    """Return why no object satisfies the schema; None if an object can."""
    return _Search(References(schema)).reason(schema, 0)


class _Search:
    def __init__(self, references: References) -> None:
        self._references = references
        self._left = MAX_NODES

    def reason(self, schema: object, depth: int) -> str | None:
        """Return why no value satisfies a schema; None in doubt."""
        self._left -= 1
        if self._left < 0:
            return None
        if schema is False:
            return "its schema is false"
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return None
        if "not" in schema and schema["not"] in _EVERYTHING and schema["not"] is not False:
            return 'its schema is {"not": {}}'
        if schema.get("enum") == []:
            return "its enum is empty"
        found = self._references.find(schema.get("$ref"))
        if found is not None and (reason := self.reason(found[1], depth + 1)):
            return reason
        return self._reason_of_parts(schema, depth) or self._reason_of_required(schema, depth)

    def _reason_of_parts(self, schema: Mapping[str, Any], depth: int) -> str | None:
        every = schema.get("allOf")
        for part in every if isinstance(every, list) else ():
            if reason := self.reason(part, depth + 1):
                return reason
        for key in ("anyOf", "oneOf"):
            branches = schema.get(key)
            if isinstance(branches, list) and branches:
                reasons = [self.reason(branch, depth + 1) for branch in branches]
                if all(reasons):
                    return reasons[0]
        return None

    def _reason_of_required(self, schema: Mapping[str, Any], depth: int) -> str | None:
        required = schema.get("required")
        if schema.get("type") != "object" or not isinstance(required, list):
            return None
        properties = schema.get("properties")
        declared = properties if isinstance(properties, Mapping) else {}
        is_closed = schema.get("additionalProperties") is False and not schema.get(
            "patternProperties"
        )
        for name in required:
            if name in declared:
                reason = self.reason(declared[name], depth + 1)
            else:
                reason = "additionalProperties is false" if is_closed else None
            if reason is not None:
                return f"no value is valid for the required property {quote(str(name))}: {reason}"
        return None
