"""Bounds the cost of validating arguments against a server's JSON Schema.

The validator walks every branch, and nothing can interrupt it. References unfold: thirty
definitions that each refer twice to the one before cost a billion checks of an empty object, and
an honest recursive schema can double the cost with each level of the arguments.

A schema is compiled to its cost for one value at each depth; the cost of a call is then estimated
from the size and depth of its arguments.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_tools_proxy.json_schema.keywords import Node
from mcp_tools_proxy.json_schema.references import References

MAX_STEPS = 10_000_000
"""Steps of one check; a step takes 10 to 100 ns."""

MAX_DEPTH = 64
"""Levels of arguments, as in requests (contract §1)."""

MAX_NODES = 50_000
BACKTRACKING_STEPS = 1_000
"""Cost of one pattern that can backtrack."""

CostByDepth = tuple[int, ...]
"""Most steps per value, indexed by the depth of the arguments; the last one holds for deeper."""

_SAME_VALUE_KEYWORDS = (
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ONE_PER_CHILD_KEYWORDS = ("properties", "prefixItems", "items")
"""Of each of these at most one subschema applies to a child value (``items`` may be a list)."""
_CHILD_KEYWORDS = (
    *("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("additionalItems", "unevaluatedItems", "contains"),
)
_DEFINITIONS = ("$defs", "definitions")
_TABLES = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", *_DEFINITIONS}
)
_BACKTRACKING = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9kg]")


class SchemaTooComplex(Exception):
    """The cost of a schema is unbounded or too high; the text explains why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaNode:
    """One subschema; it refers to others by their index in the list of all nodes.

    ``steps`` is the node's own cost for one value. Nodes in ``same_value`` apply to the same value
    as the node; of each group in ``children`` at most one applies to any child value.
    """

    steps: int
    same_value: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]


def schema_nodes(schema: Node) -> list[SchemaNode]:
    """Split a schema into nodes, the root first. Raises SchemaTooComplex."""
    nodes = _all_nodes(schema)
    numbers = {id(node): number for number, node in enumerate(nodes)}
    references = References(schema)

    def number(node: Node) -> int:
        if id(node) not in numbers:
            raise SchemaTooComplex("a $ref leads to where no schema stands")
        return numbers[id(node)]

    return [
        SchemaNode(
            steps=_node_steps(node),
            same_value=tuple(
                number(part)
                for part in (*_schemas_at(node, _SAME_VALUE_KEYWORDS), *_targets(node, references))
            ),
            children=(
                *(tuple(map(number, _schemas_at(node, (key,)))) for key in _ONE_PER_CHILD_KEYWORDS),
                *((number(part),) for part in _schemas_at(node, _CHILD_KEYWORDS)),
            ),
        )
        for node in nodes
    ]


def _targets(node: Node, references: References) -> Iterator[Node]:
    """Yield the schemas that a node refers to, boolean ones left out. Raises SchemaTooComplex."""
    for key in _REFERENCES:
        if isinstance(reference := node.get(key), str):
            found = references.find(reference)
            if found is None:
                raise SchemaTooComplex(
                    "a $ref leads nowhere in it, or parts have ids or share a name"
                )
            if isinstance(found[1], Mapping):
                yield found[1]


def _all_nodes(schema: Node) -> list[Node]:
    """Return every subschema, the root first. Raises SchemaTooComplex."""
    nodes = [schema]
    for node in nodes:  # the loop appends to it
        nodes += _schemas_at(
            node, (*_SAME_VALUE_KEYWORDS, *_ONE_PER_CHILD_KEYWORDS, *_CHILD_KEYWORDS, *_DEFINITIONS)
        )
        if len(nodes) > MAX_NODES:
            raise SchemaTooComplex(f"it has more than {MAX_NODES} parts")
    return nodes


def _schemas_at(node: Node, keys: tuple[str, ...]) -> list[Node]:
    """Return the schemas under these keywords: single ones, and those in lists and tables."""
    found: list[object] = []
    for key in keys:
        value = node.get(key)
        if isinstance(value, list):
            found += value
        elif isinstance(value, Mapping):
            found += value.values() if key in _TABLES else [value]
    return [schema for schema in found if isinstance(schema, Mapping)]


def _node_steps(node: Node) -> int:
    """Count the steps of a node for one value, without its subschemas."""
    steps = 1 + sum(_length(node, key) for key in ("properties", "patternProperties", "required"))
    if any(isinstance(item, list | Mapping) for item in _items(node, "enum")):
        steps += _length(node, "enum")  # plain values are looked up in a hash set
    patterns = [node.get("pattern"), *_items(node, "patternProperties")]
    return steps + BACKTRACKING_STEPS * sum(
        isinstance(pattern, str) and _BACKTRACKING.search(pattern) is not None
        for pattern in patterns
    )


def _items(node: Node, key: str) -> list[object]:
    value: object = node.get(key)
    return list(value) if isinstance(value, list | Mapping) else []


def _length(node: Node, key: str) -> int:
    return len(_items(node, key))


def compile_cost(schema: Mapping[str, Any]) -> CostByDepth:
    """Compute a schema's cost, unfolding it level by level. Raises SchemaTooComplex."""
    nodes = schema_nodes(schema)
    found: list[int] = []
    below: dict[int, int] = {}
    for _ in range(MAX_DEPTH + 1):
        level = _unfold_level(nodes, below)
        found.append(level[0])
        if level == below:
            break
        below = level
    if found[0] > MAX_STEPS:
        raise SchemaTooComplex(f"it takes more than {MAX_STEPS} steps to check an empty object")
    return tuple(found)


def estimate_cost(arguments: object, steps: CostByDepth) -> int:
    """Return an upper bound of the steps that checking ``arguments`` takes."""
    size, depth = _measure(arguments)
    return size * steps[min(depth, len(steps) - 1)]


def _unfold_level(nodes: Sequence[SchemaNode], below: Mapping[int, int]) -> dict[int, int]:
    """Count the steps of each node, given in ``below`` those for one level less."""
    level: dict[int, int] = {}

    def count(number: int, under: frozenset[int]) -> int:
        if number in level:
            return level[number]
        if number in under:
            raise SchemaTooComplex("a $ref leads back to itself for the same value")
        node = nodes[number]
        steps = node.steps
        steps += sum(max((below.get(n, 0) for n in group), default=0) for group in node.children)
        steps += sum(count(n, under | {number}) for n in node.same_value)
        level[number] = min(steps, MAX_STEPS + 1)
        return level[number]

    try:
        for number in range(len(nodes)):
            count(number, frozenset())
    except RecursionError:
        raise SchemaTooComplex("a chain of $refs is too long") from None
    return level


def _measure(value: object) -> tuple[int, int]:
    """Return how many values a value holds, itself included, and its depth."""
    parts: Iterable[object] = ()
    match value:
        case dict():
            parts = value.values()
        case list():
            parts = value
    size, depth = 1, 0
    for part in parts:
        part_size, part_depth = _measure(part)
        size += part_size
        depth = max(depth, part_depth + 1)
    return size, depth
