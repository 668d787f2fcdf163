"""Schemas as MCP lists show them: clients reject a whole list for one schema that they cannot read.

Measured with the clients of the TypeScript SDK, which compile each ``outputSchema`` of a list with
Ajv in JavaScript, and which take only objects for the values of ``properties``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_tools_proxy.json_schema.keywords import Node
from mcp_tools_proxy.json_schema.references import NAMED_SCHEMAS, OTHER_SCHEMAS, subschemas
from mcp_tools_proxy.json_schema.validator import BrokenSchema, compile_check
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
"""Keywords whose value is a value, not a schema or a rule."""

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
    """Return why Ajv refuses a schema that is valid; ``names`` are those of the nodes before."""
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
    # A possessive repeat of the tokens would do, but Python 3.11.2 takes a++ for one (gh-106052).
    while token := _JAVASCRIPT_TOKEN.match(pattern, end):
        end = token.end()
    return end == len(pattern) and not _CLASS_IN_RANGE.search(pattern)


def with_object_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write boolean schemas that are values of ``properties`` as objects, at any depth.

    The schema accepts the same values. Without such a boolean it is returned itself.
    """
    if not any(_has_boolean_property(node) for node in nodes_of(schema)):
        return schema
    written: Mapping[str, Any] = _rewritten(schema)
    return written


def _has_boolean_property(node: Node) -> bool:
    properties = node.get("properties")
    return isinstance(properties, Mapping) and any(type(it) is bool for it in properties.values())


def _rewritten(node: Any) -> Any:
    if not isinstance(node, Mapping):
        return node
    return {key: _rewritten_keyword(key, value) for key, value in node.items()}


def _rewritten_keyword(key: str, value: Any) -> Any:
    if key in NAMED_SCHEMAS and isinstance(value, Mapping):
        parts = {name: _rewritten(part) for name, part in value.items()}
        if key == "properties":
            parts = {name: _as_object(part) for name, part in parts.items()}
        return parts
    if key in OTHER_SCHEMAS:
        return list(map(_rewritten, value)) if isinstance(value, list) else _rewritten(value)
    return value


def without_null_keywords(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without the keywords that are null, which mean absent, at any depth.

    Some servers write each field of their own schema type, used or not (``"required": null``).
    ``const`` and ``default`` may be null. A property whose schema is null may have any value.
    Without such a null the schema is returned itself.
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
    written: dict[str, Any] = {}
    for key, value in node.items():
        if _is_absent(key, value):
            continue
        if key in NAMED_SCHEMAS and isinstance(value, Mapping):
            written[key] = {k: {} if v is None else _without_nulls(v) for k, v in value.items()}
        elif key in OTHER_SCHEMAS:
            is_list = isinstance(value, list)
            written[key] = [*map(_without_nulls, value)] if is_list else _without_nulls(value)
        else:
            written[key] = value
    return written


def _as_object(schema: Any) -> Any:
    if type(schema) is not bool:
        return schema
    return {} if schema else {"not": {}}
