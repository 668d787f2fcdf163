"""The gateway's source as syntax trees, with the calls of each function."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path

from tests.support.source_files import ROOT

SERVICES = ROOT / "services"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """One file of the gateway and its syntax tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.nodes = list(ast.walk(self.tree))
        self._parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def values(self) -> Mapping[str, object]:
        """Runtime values of its names."""
        parts = self.path.relative_to(SERVICES).with_suffix("").parts
        return vars(import_module(".".join(parts).removesuffix(".__init__")))

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the ancestors of a node, innermost first."""
        while (above := self._parents.get(node)) is not None:
            yield above
            node = above

    def function_of(self, node: ast.AST) -> Function | None:
        return next((it for it in self.around(node) if isinstance(it, Function)), None)


@cache
def modules() -> Sequence[Module]:
    return [Module(path) for path in sorted((SERVICES / "mcp_tools_proxy").rglob("*.py"))]


@cache
def _calls() -> Mapping[str, Sequence[tuple[Module, ast.Call]]]:
    """Return all calls by the name of the called function."""
    found: dict[str, list[tuple[Module, ast.Call]]] = defaultdict(list)
    for module in modules():
        for node in module.nodes:
            if isinstance(node, ast.Call):
                found[last_name(node.func)].append((module, node))
    return found


def callers_of(module: Module, function: Function) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the calls of a function or method; of a private one only in its module."""
    is_method = isinstance(next(module.around(function)), ast.ClassDef)
    for caller, call in _calls()[function.name]:
        is_private = function.name.startswith("_")
        if isinstance(call.func, ast.Attribute) == is_method and (
            caller is module or not is_private
        ):
            yield caller, call


def arguments_of(function: Function, call: ast.Call) -> Mapping[str, ast.expr]:
    """Return the arguments of a call by parameter name."""
    names = [it.arg for it in function.args.args if it.arg not in ("self", "cls")]
    by_name = {it.arg: it.value for it in call.keywords if it.arg}
    return {**dict(zip(names, call.args, strict=False)), **by_name}


def last_name(node: ast.expr) -> str:
    """Return the last name in an expression: ``pages`` of ``len(document.pages)``."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return name
        case ast.Call(func=func, args=[argument, *_]) if last_name(func) in ("len", "ceil"):
            return last_name(argument)
        case ast.Call(func=func):
            return last_name(func)
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case ast.Subscript(value=value):
            return last_name(value)
    return "…"
