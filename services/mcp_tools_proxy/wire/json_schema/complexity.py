"""Bounds the cost of validating arguments against a server's JSON Schema.

The validator walks all branches and cannot be interrupted. Thirty definitions that each refer twice
to the previous one cost a billion checks of an empty object, and a legitimate recursive schema can
double the cost with each level of the arguments.

A schema is compiled to its cost for one value at each depth. The cost of a call is then estimated
from the size and depth of its arguments and, for patterns, the length of its texts.

A pattern without look-around and back-references takes time linear in text × pattern. Others
backtrack, and a single step can scan the rest of the text: 100 kB of ``a`` against
``(?=.*[A-Z])(?=.*\\d).{8,}`` took 58 s with 100,000 steps allowed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from jsonschema_rs import FancyRegexOptions, RegexOptions, ValidationError, validator_for

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.json_schema.keywords import Node, References

MAX_STEPS = 10_000_000
"""Maximum steps of one check."""

STEP_NS = 50
"""A step takes 10 to 50 ns."""

VALUE_NS = 350
"""Reading a value of the arguments, and its key, for the check."""

EXPLANATION_STEP_NS = 600
"""For each mismatching part of the schema, the library copies the value into a problem."""

_COPIED_CHARS_PER_NS = 4

MAX_DEPTH = 64
"""Levels of arguments, as in requests (contract §1)."""

MAX_NODES = 50_000

_ENUM_STEPS = 4
"""Comparison of an object with an enum member takes 200 ns."""

_MIXED_PER_STEP = 8
"""Comparison of values of different types takes 6 ns."""

_MULTIPLE_STEPS = 600
"""``multipleOf`` with a fraction: 1e300 and 1e-300 take 28 µs."""

_EXACT = 2**53
"""Larger integers, and fractions, are compared digit by digit: 20,000 of them as unique items
took minutes, because all have the same hash, and 2,000 in an enum of 2,000 took 5.5 s."""

_PAIR_NS = 2_300
"""Comparison of two such integers with 309 digits."""

_INTEGER_NS, _FRACTION_NS, _EXTREME_NS = 500, 2_000, 15_000
"""Comparison of a fraction with a number of the schema. Extreme ones have over 40 digits."""

_FRACTION_STEPS, _EXTREME_STEPS = 20, 300
"""Comparison of a small integer with a fraction or large integer of the schema."""

_EXTREME_WEIGHT = 20
"""1e-310 takes twenty times as long as 0.1."""

_SMALLEST, _LARGEST = 1e-30, 1e40

_NUMBER_KEYWORDS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "const"),
)

_MAX_NS = MAX_STEPS * STEP_NS

CostByDepth = tuple[int, ...]
"""Maximum steps per value by depth of the arguments; the last applies to deeper ones."""

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
"""At most one subschema of each keyword applies to a child value (``items`` can be a list)."""
_CHILD_KEYWORDS = (
    *("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("additionalItems", "unevaluatedItems", "contains"),
)
_DEFINITIONS = ("$defs", "definitions")
_TABLES = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", *_DEFINITIONS}
)
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
"""The library checks the other keywords again to find the unevaluated parts."""


class SchemaTooComplex(Exception):
    """The cost of a schema is unbounded or too high; the text explains why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaNode:
    """One subschema; it refers to others by their index in the list of all nodes.

    Costs are ``steps`` per value, ``char_ns`` per character of a text, ``number_ns`` per number
    other than a small integer, and ``pairs`` comparisons of list items, all multiplied by
    ``times``. Nodes in ``same_value`` apply to the same value; at most one of each group in
    ``children`` applies to any child value.
    """

    steps: int
    char_ns: int
    number_ns: int
    pairs: int
    times: int
    same_value: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]


def schema_nodes(schema: Node) -> list[SchemaNode]:
    """Split a schema into nodes, the root first. Raises SchemaTooComplex."""
    nodes = _all_nodes(schema)
    numbers = {id(node): number for number, node in enumerate(nodes)}
    references = References(schema)

    def number(node: Node) -> int:
        if id(node) not in numbers:
            raise SchemaTooComplex("a $ref does not point to a schema")
        return numbers[id(node)]

    return [
        SchemaNode(
            steps=_node_steps(node),
            char_ns=sum(map(_char_ns, _patterns_of(node))),
            number_ns=_number_ns(node),
            pairs=int(node.get("uniqueItems") is True),
            times=2 if any(key in node for key in _UNEVALUATED) else 1,
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
    """Yield the target schemas of a node's references, except booleans. Raises SchemaTooComplex."""
    for key in _REFERENCES:
        if isinstance(reference := node.get(key), str):
            found = references.find(reference)
            if found is None:
                raise SchemaTooComplex(
                    "a $ref cannot be resolved: its target is missing, or the schema has ids or "
                    "duplicate names"
                )
            if isinstance(found[1], Mapping):
                yield found[1]


def _all_nodes(schema: Node) -> list[Node]:
    nodes = [schema]
    for node in nodes:  # the loop appends to it
        nodes += _schemas_at(
            node, (*_SAME_VALUE_KEYWORDS, *_ONE_PER_CHILD_KEYWORDS, *_CHILD_KEYWORDS, *_DEFINITIONS)
        )
        if len(nodes) > MAX_NODES:
            raise SchemaTooComplex(f"it has more than {MAX_NODES} parts")
    return nodes


def _schemas_at(node: Node, keys: tuple[str, ...]) -> list[Node]:
    found: list[object] = []
    for key in keys:
        value = node.get(key)
        if isinstance(value, list):
            found += value
        elif isinstance(value, Mapping):
            found += value.values() if key in _TABLES else [value]
    return [schema for schema in found if isinstance(schema, Mapping)]


def _node_steps(node: Node) -> int:
    steps = 1 + sum(_length(node, key) for key in ("properties", "patternProperties", "required"))
    steps += _enum_steps(_items(node, "enum"))
    for names in _values(node, "dependentRequired"):
        steps += len(names) if isinstance(names, list) else 0
    if isinstance(node.get("const"), list | Mapping):
        steps += _measure(node["const"]).values
    steps += sum(_number_steps(node.get(key)) for key in _NUMBER_KEYWORDS)
    return steps + (_MULTIPLE_STEPS if isinstance(node.get("multipleOf"), float) else 0)


def _enum_steps(choices: list[object]) -> int:
    if any(isinstance(item, list | Mapping) for item in choices):
        return _ENUM_STEPS * len(choices)
    # values of one type are in a hash set, except for fractions and large integers
    is_set = len({type(item) for item in choices}) < 2 and not any(map(_weight, choices))
    return 0 if is_set else len(choices) // _MIXED_PER_STEP


def _number_steps(number: object) -> int:
    weight = _weight(number)
    return 0 if not weight else _FRACTION_STEPS if weight == 1 else _EXTREME_STEPS


def _number_ns(node: Node) -> int:
    found = (*(node.get(key) for key in _NUMBER_KEYWORDS), *_items(node, "enum"))
    return sum(_comparison_ns(it) for it in found)


def _comparison_ns(number: object) -> int:
    if not _is_number(number):
        return 0
    weight = _weight(number)
    return _INTEGER_NS if not weight else _FRACTION_NS if weight == 1 else _EXTREME_NS


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _weight(value: object) -> int:
    """Return the comparison cost of a number relative to a fraction; 0 for a small integer."""
    if not isinstance(value, int | float) or (isinstance(value, int) and -_EXACT < value < _EXACT):
        return 0
    is_usual = value == 0 or _SMALLEST < abs(value) < _LARGEST
    return 1 if is_usual else _EXTREME_WEIGHT


def _patterns_of(node: Node) -> Iterator[str]:
    for pattern in (node.get("pattern"), *_items(node, "patternProperties")):
        if isinstance(pattern, str):
            yield pattern


def _char_ns(pattern: str) -> int:
    cost = cost_of_pattern(pattern)
    return 0 if cost is None else cost.char_ns


def _values(node: Node, key: str) -> Iterable[object]:
    value: object = node.get(key)
    return value.values() if isinstance(value, Mapping) else ()


def _items(node: Node, key: str) -> list[object]:
    value: object = node.get(key)
    return list(value) if isinstance(value, list | Mapping) else []


def _length(node: Node, key: str) -> int:
    return len(_items(node, key))


class DepthCost(NamedTuple):
    """The cost of a check for arguments of one depth; see SchemaNode."""

    steps: int
    char_ns: int
    number_ns: int
    pairs: int


Cost = tuple[DepthCost, ...]
"""The cost of a check by depth of the arguments; the last applies to deeper ones."""


class Estimate(NamedTuple):
    """Maximum cost of checking one call's arguments, and of finding their problems."""

    steps: int
    ns: int
    explanation_ns: int


def check_patterns(schema: Node) -> bool:
    """Return whether a pattern of the schema backtracks. Raises SchemaTooComplex.

    Must precede the slow compilation of the schema. Patterns that are invalid or too large are left
    to the compiler.
    """
    size, backtracks = 0, False
    for pattern in {pattern for node in _all_nodes(schema) for pattern in _patterns_of(node)}:
        cost = cost_of_pattern(pattern)
        if cost is None:
            break
        backtracks |= cost.backtracks
        size += cost.size
        if size > MAX_PATTERN_BYTES:
            raise SchemaTooComplex("its patterns are too large; use fewer, or lower repeat counts")
    return backtracks


def compile_cost(schema: Mapping[str, Any]) -> Cost:
    """Compute a schema's cost by unfolding it level by level. Raises SchemaTooComplex."""
    nodes = schema_nodes(schema)
    steps = _unfold(nodes, [node.steps for node in nodes], MAX_STEPS)
    if steps[0] > MAX_STEPS:
        raise SchemaTooComplex(f"it takes more than {MAX_STEPS} steps to check an empty object")
    char_ns, number_ns, pairs = (
        _unfold(nodes, own, _MAX_NS) if any(own) else (0,)
        for own in (
            [node.char_ns for node in nodes],
            [node.number_ns for node in nodes],
            [node.pairs for node in nodes],
        )
    )
    columns = steps, char_ns, number_ns, pairs
    return tuple(
        DepthCost(*(it[min(depth, len(it) - 1)] for it in columns))
        for depth in range(max(map(len, columns)))
    )


def is_small(arguments: Mapping[str, Any]) -> bool:
    """Return whether the arguments are a few short texts, as in most calls."""
    return (
        len(arguments) < _SMALL.values
        and set(map(type, arguments.values())) == _TEXTS
        and sum(map(len, arguments)) + sum(map(len, arguments.values())) <= _SMALL.chars
    )


def cost_of_small(cost: Cost) -> Estimate:
    """Return an upper bound for the check of small arguments; see ``is_small``."""
    return _estimate(_SMALL, cost)


def estimate_cost(arguments: object, cost: Cost) -> Estimate:
    """Return an upper bound for the check of ``arguments``."""
    return _estimate(_measure(arguments), cost)


def _estimate(size: "_Size", cost: Cost) -> Estimate:
    steps_each, char_ns, number_ns, pairs = cost[min(size.depth, len(cost) - 1)]
    steps = size.values * steps_each
    return Estimate(
        steps=steps,
        ns=size.values * VALUE_NS
        + steps * STEP_NS
        + size.chars * char_ns
        + size.numbers * number_ns
        + size.large_integers**2 // 2 * pairs * _PAIR_NS,
        explanation_ns=steps * EXPLANATION_STEP_NS
        + size.chars * steps_each // _COPIED_CHARS_PER_NS,
    )


def _unfold(nodes: Sequence[SchemaNode], own: Sequence[int], most: int) -> CostByDepth:
    found: list[int] = []
    below: dict[int, int] = {}
    for _ in range(MAX_DEPTH + 1):
        level = _unfold_level(nodes, own, below, most)
        found.append(level[0])
        if level == below:
            break
        below = level
    return tuple(found)


def _unfold_level(
    nodes: Sequence[SchemaNode], own: Sequence[int], below: Mapping[int, int], most: int
) -> dict[int, int]:
    """Compute the cost of each node, given the costs for one level less in ``below``."""
    level: dict[int, int] = {}

    def count(number: int, under: frozenset[int]) -> int:
        if number in level:
            return level[number]
        if number in under:
            raise SchemaTooComplex("a $ref refers to itself for the same value")
        node = nodes[number]
        cost = own[number]
        cost += sum(max((below.get(n, 0) for n in group), default=0) for group in node.children)
        cost += sum(count(n, under | {number}) for n in node.same_value)
        level[number] = min(cost * node.times, most + 1)
        return level[number]

    try:
        for number in range(len(nodes)):
            count(number, frozenset())
    except RecursionError:
        raise SchemaTooComplex("a chain of $refs is too long") from None
    return level


class _Size(NamedTuple):
    values: int
    depth: int
    chars: int
    numbers: int
    """Sum of the weights of all numbers except small integers."""
    large_integers: int


_SMALL = _Size(values=32, depth=1, chars=2_000, numbers=0, large_integers=0)
_TEXTS = {str}


def _measure(value: object) -> _Size:
    """Return the size of a value, including itself."""
    values, chars, depth, numbers, large_integers = 0, 0, -1, 0, 0
    level: list[object] = [value]
    while level:
        depth += 1
        values += len(level)
        below: list[object] = []
        for part in level:
            if isinstance(part, str):
                chars += len(part)
            elif isinstance(part, dict):
                chars += sum(map(len, part))
                below += part.values()
            elif isinstance(part, list):
                below += part
            elif type(part) is int and -_EXACT < part < _EXACT:
                pass  # most numbers, in a third of the time
            elif weight := _weight(part):
                numbers += weight
                large_integers += isinstance(part, int)
        level = below
    return _Size(values, depth, chars, numbers, large_integers)


BACKTRACKING_NS = 100_000
"""Per character, for texts up to some hundred characters and 10,000 steps of backtracking."""

MAX_PATTERN_BYTES = 4_096_000
"""Compiled size of the patterns of one schema; compiling a megabyte takes 3 ms."""

_SMALLEST_BYTES = 1_000
_STEP = 4
_BYTES_PER_NS = 4
"""Measured: a character takes up to 0.17 ns for each byte of the compiled pattern."""

_ONE_CHARACTER = re.compile(
    r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\[pP]\{[^}]*\}|\\[^1-9bBkpP]|\.", re.DOTALL
)
"""A character class, large when compiled as UTF-8, but a single position."""


class PatternCost(NamedTuple):
    """``char_ns`` is the cost per character, ``size`` the compiled size in bytes."""

    char_ns: int
    size: int
    backtracks: bool


@lru_cache(maxsize=20_000)
def cost_of_pattern(pattern: str) -> PatternCost | None:
    """Return the cost of a pattern; None if it is invalid or too large."""
    size = _compiled_size(pattern, RegexOptions)
    if size is None:
        size = _compiled_size(pattern, FancyRegexOptions)
        if size is None:
            return None
        return PatternCost(BACKTRACKING_NS, size, True)
    positions = _compiled_size(_ONE_CHARACTER.sub("a", pattern), RegexOptions) or size
    return PatternCost(min(positions, size) // _BYTES_PER_NS, size, False)


def _compiled_size(
    pattern: str, options: type[RegexOptions] | type[FancyRegexOptions]
) -> int | None:
    """Return the size of the compiled pattern, rounded up; None if this engine rejects it.

    Sizes above the limit also return None. Small sizes come first, because compilation time is
    linear.
    """
    size = _SMALLEST_BYTES
    while size <= MAX_PATTERN_BYTES:
        if _compiles(pattern, options(size_limit=size)):
            return size
        size *= _STEP
    return None


def _compiles(pattern: str, options: RegexOptions | FancyRegexOptions) -> bool:
    try:
        validator_for({"pattern": pattern}, offline=True, pattern_options=options)
    except ValidationError:
        return False
    return True
