"""How much work a JSON Schema can make of checking arguments: the bound that its checker lacks.

The checker walks every branch, and nothing can interrupt it. Parts that refer to each other unfold:
thirty definitions that each refer twice to the one before are a billion checks of an empty object,
and an honest recursive schema can double them with each level of the arguments.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mcp_tools_proxy.json_schema.schema_nodes import Part, Unbounded, parts_of

MAX_STEPS = 10_000_000
"""Steps of one check; a step takes 10 to 100 ns."""

MAX_DEPTH = 64
"""Levels of arguments, as in requests (contract §1)."""

Steps = tuple[int, ...]
"""The most steps that each value of arguments takes, by their depth; the last holds for deeper."""


def steps_of(schema: Mapping[str, Any]) -> Steps:
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
        raise Unbounded(f"it takes more than {MAX_STEPS} steps to check an empty object")
    return tuple(found)


def effort_of(arguments: object, steps: Steps) -> int:
    """Give how many steps checking ``arguments`` takes at most."""
    size, depth = _measure(arguments)
    return size * steps[min(depth, len(steps) - 1)]


def _unfolded(parts: Sequence[Part], below: Mapping[int, int]) -> dict[int, int]:
    """Count the steps of each part, where ``below`` has those of one level less."""
    level: dict[int, int] = {}

    def count(number: int, under: frozenset[int]) -> int:
        if number in level:
            return level[number]
        if number in under:
            raise Unbounded("a $ref leads back to itself for the same value")
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
        raise Unbounded("a chain of $refs is too long") from None
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
