"""Finds names in the source: keys of mappings, and possible texts of an expression.

The code is read, not run, to include code that no test reaches. ``…`` represents names known only
at runtime."""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Self

from tests.goldens.source_modules import (
    Function,
    Module,
    arguments_of,
    callers_of,
    last_name,
    modules,
)

UNKNOWN = frozenset({"…"})
MAX_DEPTH = 4

Names = frozenset[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scope:
    """A function of a module, as called by one of its callers."""

    module: Module
    function: Function | None = None
    passed: Mapping[str, tuple[ast.expr, "Scope"]] = field(default_factory=dict)
    depth: int = 0

    @classmethod
    def around(
        cls, module: Module, node: ast.AST, names: Iterable[str], depth: int = 0
    ) -> Sequence[Self]:
        """Return the scopes of a node: one for each caller that passes one of the names."""
        function = module.function_of(node)
        own = cls(module=module, function=function, depth=depth)
        if function is None or depth == MAX_DEPTH:
            return [own]
        wanted = _parameters_behind(function, names)
        found: list[Self] = []
        for caller, call in callers_of(module, function) if wanted else ():
            passed = {
                name: value
                for name, value in arguments_of(function, call).items()
                if name in wanted
            }
            inner = {it for value in passed.values() for it in names_in(value)}
            for outer in cls.around(caller, call, inner, depth + 1) if passed else ():
                bound = {name: (value, outer) for name, value in passed.items()}
                found.append(cls(module=module, function=function, passed=bound, depth=depth))
        return found or [own]

    def constant(self, name: str) -> object:
        """Return the value of a module's constant; None for other names."""
        return self.module.values.get(name) if name.lstrip("_").isupper() else None

    def within(self, module: Module, function: Function, call: ast.Call | None) -> Self:
        """Return the scope of a function called here."""
        passed = {} if call is None else arguments_of(function, call)
        bound = {name: (value, self) for name, value in passed.items()}
        return type(self)(module=module, function=function, passed=bound, depth=self.depth + 1)


@cache
def names_in(node: ast.AST) -> Names:
    return frozenset(it.id for it in ast.walk(node) if isinstance(it, ast.Name))


@cache
def _assignments(function: ast.AST) -> Mapping[str, Sequence[ast.expr]]:
    """Return the values assigned to each variable of a function, as a whole or by key."""
    found: dict[str, list[ast.expr]] = defaultdict(list)
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _assign(target, value, found)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ):
                _assign(target, value, found)
    return found


def _assign(target: ast.expr, value: ast.expr, found: dict[str, list[ast.expr]]) -> None:
    match target:
        case ast.Name(id=name):
            found[name].append(value)
        case ast.Subscript(value=ast.Name(id=name), slice=key):
            found[name].append(ast.Dict(keys=[key], values=[value]))
        case ast.Tuple(elts=elements) if isinstance(value, ast.Tuple):
            for element, part in zip(elements, value.elts, strict=False):  # (*pair, z) is shorter
                _assign(element, part, found)


def _parameters_behind(function: Function, names: Iterable[str]) -> set[str]:
    """Return the parameters that names refer to or are assigned from."""
    found, seen = set(names), set[str]()
    while found - seen:
        name = (found - seen).pop()
        seen.add(name)
        for value in _assignments(function).get(name, ()):
            found |= names_in(value)
    arguments = function.args
    return found & {it.arg for it in (*arguments.args, *arguments.kwonlyargs)}


@cache
def _functions() -> Mapping[str, Sequence[tuple[Module, Function]]]:
    found: dict[str, list[tuple[Module, Function]]] = defaultdict(list)
    for module in modules():
        for node in module.nodes:
            if isinstance(node, Function):
                found[node.name].append((module, node))
    return found


def _choices(node: ast.expr) -> Sequence[ast.expr]:
    """Return the alternatives and parts of an expression."""
    match node:
        case ast.IfExp(body=first, orelse=second):
            return [first, second]
        case ast.BoolOp(values=values):
            return values
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return [left, right]
    return []


def texts(node: ast.expr, scope: Scope) -> Names:
    """Return the possible texts of an expression."""
    match node:
        case ast.Constant(value=value):
            return frozenset({str(value)})
        case ast.Name(id=name) if (constant := scope.constant(name)) is not None:
            values = constant.values() if isinstance(constant, Mapping) else [constant]
            return frozenset(map(str, values))
        case ast.Subscript(value=value):
            return texts(value, scope)
    return _found(node, scope, texts)


def keys(node: ast.expr, scope: Scope) -> Names:
    """Return the possible keys of a mapping."""
    match node:
        case ast.Constant():
            return frozenset()
        case ast.Dict(keys=names, values=values):
            pairs = zip(names, values, strict=True)
            return _union(
                keys(it, scope) if key is None else texts(key, scope) for key, it in pairs
            )
        case ast.Name(id=name) if isinstance(constant := scope.constant(name), Mapping):
            return frozenset(map(str, constant))
        case ast.Call(func=ast.Name(id="dict" | "without_none"), args=args, keywords=keywords):
            return _union(keys(it, scope) for it in args) | keys_of_keywords(keywords, scope)
    return _found(node, scope, keys)


def keys_of_keywords(keywords: Iterable[ast.keyword], scope: Scope) -> Names:
    """Return the names of keyword arguments, and the keys of mappings among them."""
    return _union(
        keys(it.value, scope) if it.arg is None else frozenset({it.arg}) for it in keywords
    )


def _union(parts: Iterable[Names]) -> Names:
    return frozenset().union(*parts)


def _found(node: ast.expr, scope: Scope, read: Callable[[ast.expr, Scope], Names]) -> Names:
    """Read the value of a name, the result of a gateway function, and each choice."""
    if choices := _choices(node):
        return _union(read(it, scope) for it in choices)
    match node:
        case ast.Name(id=name) if name in scope.passed:
            return read(*scope.passed[name])
        case ast.Name(id=name) if scope.function is not None:
            values = _assignments(scope.function).get(name, ())
            own = [it for it in values if name not in names_in(it)]
            added = _added_by_others(scope.function, name, scope, read)
            return _union(read(it, scope) for it in own) | added or UNKNOWN
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return _returned(name, node, scope, read)
        case ast.Attribute(attr=name):
            return _returned(name, None, scope, read)
    return UNKNOWN


def _added_by_others(
    function: Function, name: str, scope: Scope, read: Callable[[ast.expr, Scope], Names]
) -> Names:
    """Read the keys added by functions that receive a mapping."""
    found: Names = frozenset()
    for called, call in _passed_on(function).get(name, ()):
        for module, other in _functions().get(called, ()):
            inner = scope.within(module, other, call)
            for own, value in arguments_of(other, call).items():
                if name in names_in(value):
                    added = _assignments(other).get(own, ())
                    found |= _union(read(it, inner) for it in added)
    return found


@cache
def _passed_on(function: Function) -> Mapping[str, Sequence[tuple[str, ast.Call]]]:
    """Return the calls whose result is dropped, by their argument variables."""
    found: dict[str, list[tuple[str, ast.Call]]] = defaultdict(list)
    for node in ast.walk(function):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=called), args=args) as call):
                for it in args:
                    if isinstance(it, ast.Name):
                        found[it.id].append((called, call))
    return found


@cache
def _returns(function: Function) -> Sequence[ast.expr]:
    return [it.value for it in ast.walk(function) if isinstance(it, ast.Return) and it.value]


def _returned(
    name: str, call: ast.Call | None, scope: Scope, read: Callable[[ast.expr, Scope], Names]
) -> Names:
    """Read the result of the only function or property with this name."""
    candidates = _functions().get(name, ())
    own = [it for it in candidates if it[0] is scope.module]
    found = own or ([] if name.startswith("_") else candidates)
    if len(found) != 1 or scope.depth >= MAX_DEPTH:
        return UNKNOWN
    inner = scope.within(*found[0], call)
    return _union(read(it, inner) for it in _returns(found[0][1])) or UNKNOWN


_LEVELS = frozenset({"debug", "error", "exception", "info", "warning"})
_LOGGERS = frozenset({"_log", "log", "logger"})
_RECORD_ARGUMENTS = 4
"""Parameters of ``Recorder.record``: level, event, trace id and payload."""
_OPERATIONS = {"RecordedOperation": 0, "add_to_operation": 1}
"""Functions that add to the record of an operator's request, with the position of the event."""
_EVENT = re.compile(r"[a-z_]+(\.(?!json|jsonl|lock)[a-z_]+)+")


def _levels(func: ast.expr, scope: Scope) -> Names:
    """Return the levels of a called log function; empty for other functions."""
    match func:
        case ast.Attribute(value=value, attr=level) if level in _LEVELS:
            return frozenset({level}) if last_name(value) in _LOGGERS else frozenset()
        case ast.Name(id=name) if scope.function is not None:
            return _union(_levels(it, scope) for it in _assignments(scope.function).get(name, ()))
    return _union(_levels(it, scope) for it in _choices(func))


def log_events() -> Iterator[tuple[str, str, Names]]:
    """Yield event, level and fields of each call that writes a log line or a record."""
    for module in modules():
        for node in module.nodes:
            if isinstance(node, ast.Call) and node.args:
                plain = Scope(module=module, function=module.function_of(node))
                if levels := _levels(node.func, plain):
                    yield from _line(module, node, levels)
                elif last_name(node.func) == "record" and len(node.args) == _RECORD_ARGUMENTS:
                    yield from _record(module, node)
                elif last_name(node.func) in _OPERATIONS:
                    yield from _operation(module, node)


def _line(module: Module, call: ast.Call, levels: Names) -> Iterator[tuple[str, str, Names]]:
    event = call.args[0]
    names = names_in(event).union(*(names_in(it.value) for it in call.keywords if it.arg is None))
    for scope in Scope.around(module, call, names):
        fields = keys_of_keywords(call.keywords, scope)
        for name in texts(event, scope):
            yield from ((name, level, fields) for level in levels)


def _record(module: Module, call: ast.Call) -> Iterator[tuple[str, str, Names]]:
    level, event, _, payload = call.args
    names = names_in(level) | names_in(event) | names_in(payload)
    for scope in Scope.around(module, call, names):
        fields = keys(payload, scope)
        for name in texts(event, scope):
            yield from ((name, it, fields) for it in texts(level, scope))


def _operation(module: Module, call: ast.Call) -> Iterator[tuple[str, str, Names]]:
    """Yield the additions to the record of an operator's request."""
    event, *fields = call.args[_OPERATIONS[last_name(call.func)] :] or [ast.Name("operation")]
    names = names_in(event).union(*map(names_in, fields), *map(names_in, call.keywords))
    for scope in Scope.around(module, call, names):
        found = _union(keys(it, scope) for it in fields) | keys_of_keywords(call.keywords, scope)
        yield from ((name, "info", found) for name in texts(event, scope))


def events_named_in(page: str) -> Iterator[str]:
    """Yield the event names of a page that occur in the source."""
    for module in modules():
        for node in module.nodes:
            match node:
                case ast.Constant(value=str(text)) if (
                    _EVENT.fullmatch(text) and f"`{text}`" in page
                ):
                    yield text


def details_of(names: Mapping[str, str]) -> Iterator[tuple[str, Names]]:
    """Yield code and keys of ``details`` of each error that is built; ``names`` are the codes."""
    for module in modules():
        for node in module.nodes:
            match node:
                case ast.Call(func=func, keywords=keywords) if last_name(func) in names:
                    for it in keywords:
                        if it.arg == "details":
                            for scope in Scope.around(module, node, names_in(it.value)):
                                yield names[last_name(func)], keys(it.value, scope)
