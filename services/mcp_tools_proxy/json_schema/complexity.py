"""How much work a JSON Schema can make of checking arguments: the bound that its checker lacks.

The checker walks every branch, and nothing can interrupt it. Parts that refer to each other unfold:
thirty definitions that each refer twice to the one before are a billion checks of an empty object,
and an honest recursive schema can double them with each level of the arguments.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_tools_proxy.json_schema.keywords import Node
from mcp_tools_proxy.json_schema.references import References

MAX_PARTS = 50_000
FANCY_STEPS = 1_000
"""What matching one pattern that can backtrack may take."""

_HERE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ONE_OF_BELOW = ("properties", "prefixItems", "items")
"""Of each of these at most one part looks at one value (``items`` may be a list)."""
_EACH_BELOW = (
    *("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("additionalItems", "unevaluatedItems", "contains"),
)
_ASIDE = ("$defs", "definitions")
_TABLES = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", *_ASIDE}
)
_FANCY = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9kg]")


class SchemaTooComplex(Exception):
    """The work that a schema makes has no bound, or a high one; its text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaNode:
    """One schema in a schema; others are told by their number.

    Those ``here`` look at the same value; of each group ``below``, at most one at a value in it.
    """

    own_steps: int
    here: tuple[int, ...]
    below: tuple[tuple[int, ...], ...]


def parts_of(schema: Node) -> list[SchemaNode]:
    """Take a schema apart; it is the first part itself. Raises Unbounded."""
    nodes = _all_nodes(schema)
    numbers = {id(node): number for number, node in enumerate(nodes)}
    references = References(schema)

    def number(node: Node) -> int:
        if id(node) not in numbers:
            raise SchemaTooComplex("a $ref leads to where no schema stands")
        return numbers[id(node)]

    return [
        SchemaNode(
            own_steps=_own_steps(node),
            here=tuple(
                number(part) for part in (*_schemas_at(node, _HERE), *_targets(node, references))
            ),
            below=(
                *(tuple(map(number, _schemas_at(node, (key,)))) for key in _ONE_OF_BELOW),
                *((number(part),) for part in _schemas_at(node, _EACH_BELOW)),
            ),
        )
        for node in nodes
    ]


def _targets(node: Node, references: References) -> Iterator[Node]:
    """Give the schemas that a part refers to; true and false are none. Raises Unbounded."""
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
    """Give every schema in a schema, itself first. Raises Unbounded."""
    nodes = [schema]
    for node in nodes:  # grows meanwhile
        nodes += _schemas_at(node, (*_HERE, *_ONE_OF_BELOW, *_EACH_BELOW, *_ASIDE))
        if len(nodes) > MAX_PARTS:
            raise SchemaTooComplex(f"it has more than {MAX_PARTS} parts")
    return nodes


def _schemas_at(node: Node, keys: tuple[str, ...]) -> list[Node]:
    """Give the schemas that stand at these keys: alone, in lists, in tables."""
    found: list[object] = []
    for key in keys:
        value = node.get(key)
        if isinstance(value, list):
            found += value
        elif isinstance(value, Mapping):
            found += value.values() if key in _TABLES else [value]
    return [schema for schema in found if isinstance(schema, Mapping)]


def _own_steps(node: Node) -> int:
    """Count what a part does by itself with one value."""
    steps = 1 + sum(_length(node, key) for key in ("properties", "patternProperties", "required"))
    if any(isinstance(item, list | Mapping) for item in _items(node, "enum")):
        steps += _length(node, "enum")  # one of plain values is found at once
    patterns = [node.get("pattern"), *_items(node, "patternProperties")]
    return steps + FANCY_STEPS * sum(
        isinstance(pattern, str) and _FANCY.search(pattern) is not None for pattern in patterns
    )


def _items(node: Node, key: str) -> list[object]:
    value: object = node.get(key)
    return list(value) if isinstance(value, list | Mapping) else []


def _length(node: Node, key: str) -> int:
    return len(_items(node, key))


MAX_STEPS = 10_000_000
"""Steps of one check; a step takes 10 to 100 ns."""

MAX_DEPTH = 64
"""Levels of arguments, as in requests (contract §1)."""

CostByDepth = tuple[int, ...]
"""The most steps that each value of arguments takes, by their depth; the last holds for deeper."""


def compile_cost(schema: Mapping[str, Any]) -> CostByDepth:
    """Count the steps of a schema, unfolded level by level. Raises Unbounded."""
    parts = parts_of(schema)
    found: list[int] = []
    below: dict[int, int] = {}
    for _ in range(MAX_DEPTH + 1):
        level = _unfolded(parts, below)
        found.append(level[0])
        if level == below:
            break
        below = level
    if found[0] > MAX_STEPS:
        raise SchemaTooComplex(f"it takes more than {MAX_STEPS} steps to check an empty object")
    return tuple(found)


def estimate_cost(arguments: object, steps: CostByDepth) -> int:
    """Give how many steps checking ``arguments`` takes at most."""
    size, depth = _measure(arguments)
    return size * steps[min(depth, len(steps) - 1)]


def _unfolded(parts: Sequence[SchemaNode], below: Mapping[int, int]) -> dict[int, int]:
    """Count the steps of each part, where ``below`` has those of one level less."""
    level: dict[int, int] = {}

    def count(number: int, under: frozenset[int]) -> int:
        if number in level:
            return level[number]
        if number in under:
            raise SchemaTooComplex("a $ref leads back to itself for the same value")
        part = parts[number]
        steps = part.own_steps
        steps += sum(max((below.get(b, 0) for b in group), default=0) for group in part.below)
        steps += sum(count(here, under | {number}) for here in part.here)
        level[number] = min(steps, MAX_STEPS + 1)
        return level[number]

    try:
        for number in range(len(parts)):
            count(number, frozenset())
    except RecursionError:
        raise SchemaTooComplex("a chain of $refs is too long") from None
    return level


def _measure(value: object) -> tuple[int, int]:
    """Count the values in a value, itself one of them, and its levels."""
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
