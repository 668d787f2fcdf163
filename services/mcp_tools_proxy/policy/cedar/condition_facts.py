"""The names in a policy's conditions: facts that it reads or tests with ``has``, texts, entities.

Cedar's validation accepts a misspelt name after ``has``, a misspelt text and a misspelt server, and
such a policy never fires.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcp_tools_proxy.domain.fast_dataclass import dataclass

Path = tuple[str, ...]
"""Attributes below ``context``, such as ``("run", "called", "crm:refund")``."""

Node = Mapping[str, Any]

CLOCK_FACTS = ("hour", "weekday", "at")
RUN_NUMBERS = ("calls", "errors", "repeats", "tokens")
RUN_FLAGS = ("read_only", "undeclared")
RUN_COUNTS = ("called", "succeeded", "total")

_RECORDS: frozenset[Path] = frozenset(
    ((), ("clock",), ("run",), ("origin",), ("args",), *(("run", it) for it in RUN_COUNTS))
)


class InvalidPolicy(ValueError):
    """A policy that cannot be used; ``policy_id`` is its ``@id`` or position in the file."""

    def __init__(self, policy_id: str, problem: str, file: str = "") -> None:
        super().__init__(problem)
        self.policy_id = policy_id
        self.file = file
        self.problem = problem


@dataclass(frozen=True, slots=True)
class ConditionFacts:
    """``reads`` are paths whose values are used, ``tests`` those after ``has``.

    ``texts`` are pairs of a path and a text that its value is compared with, ``entities`` pairs of
    a type and an id, such as ``("Server", "mail")``.
    """

    reads: frozenset[Path]
    tests: frozenset[Path]
    texts: frozenset[tuple[Path, str]]
    entities: frozenset[tuple[str, str]]

    @property
    def paths(self) -> frozenset[Path]:
        """All paths that have to be in the context."""
        return self.reads | self.tests

    @classmethod
    def of(cls, policy_id: str, bodies: Iterable[object]) -> "ConditionFacts":
        """Return the facts in conditions. Raises InvalidPolicy."""
        reads: set[Path] = set()
        tests: set[Path] = set()
        texts: set[tuple[Path, str]] = set()
        entities: set[tuple[str, str]] = set()
        for node in _nodes(bodies):
            if (path := _path(node)) is not None:
                reads.add(_value_path(policy_id, path))
                continue
            for operator in _TESTS & node.keys():
                tests.add(_tested(policy_id, operator, node[operator]))
            for operator in _COMPARISONS & node.keys():
                texts.update(_compared(node[operator]))
            entities.update(_entities(node))
        return cls(frozenset(reads), frozenset(tests), frozenset(texts), frozenset(entities))


_TESTS = frozenset(("has", "hasTag", "getTag"))
_COMPARISONS = frozenset(("contains", "containsAny", "containsAll", "==", "!="))


def _nodes(bodies: Iterable[object]) -> Iterator[Node]:
    """Yield the objects of expressions, but nothing below a path, a test or a literal."""
    stack = list(bodies)
    while stack:
        match stack.pop():
            case list() as items:
                stack += items
            case {"Record": Mapping() as members}:  # its keys can be those of expressions
                stack += members.values()
            case Mapping() as node:
                yield node
                if _path(node) is None:
                    stack += (it for key, it in node.items() if key not in _NOT_EXPRESSIONS)


_NOT_EXPRESSIONS = _TESTS | {"Value"}


def _entities(node: Node) -> Iterator[tuple[str, str]]:
    match node:
        case {"Value": {"__entity": {"type": str(kind), "id": str(name)}}}:
            yield kind, name


def _value_path(policy_id: str, path: Path) -> Path:
    """Return a path. Raises InvalidPolicy for a record: it would have only the facts that policies
    name."""
    if path in _RECORDS:
        raise InvalidPolicy(
            policy_id, f"uses {_shown(path)} as a whole; name the attributes that it needs"
        )
    return path


def _tested(policy_id: str, operator: str, operands: Node) -> Path:
    left = _path(operands["left"])
    if operator != "has" or left is None:
        raise InvalidPolicy(policy_id, f"uses {operator}; only has can be used, on context")
    return (*left, str(operands["attr"]))


def _compared(operands: Node) -> Iterator[tuple[Path, str]]:
    sides = [*_choices(operands["left"]), *_choices(operands["right"])]
    texts = [it["Value"] for it in sides if isinstance(it.get("Value"), str)]
    for side in sides:
        if path := _path(side):
            yield from ((path, text) for text in texts)


def _choices(node: Node) -> Iterator[Node]:
    """Yield the parts of an expression whose values it can have or contain."""
    stack = [node]
    while stack:
        match stack.pop():
            case {"if-then-else": {"then": first, "else": second}}:
                stack += [first, second]
            case {"Set": list() as items}:
                stack += items
            case it:
                yield it


def _path(node: object) -> Path | None:
    """Return the path of an attribute below ``context``, () for ``context`` itself."""
    steps: list[str] = []
    while True:
        match node:
            case {"Var": "context"}:
                return tuple(reversed(steps))
            case {".": {"left": left, "attr": str(attr)}}:
                steps.append(attr)
                node = left
            case _:
                return None


def _shown(path: Path) -> str:
    return ".".join(("context", *path))
