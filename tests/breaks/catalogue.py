"""Deliberate breaks: faults in the code that at least one test must notice.

They are data: one TOML file for each theme, beside this module.
"""

import ast
import copy
import textwrap
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = Path("services/mcp_tools_proxy")
ORIGINAL = "original"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class CannotApply(Exception):
    """The break cannot be applied to the code; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A fault in one function, named by its path: ``auth.authenticator.AdminToken.matches``.

    ``what`` describes the fault in one sentence. ``tests`` are files or folders, relative to the
    root; one test in them must fail. Exactly one of the three following fields defines the change.
    """

    theme: str
    id: str
    what: str
    function: str
    tests: tuple[str, ...]
    body: str | None = None
    """Statements that replace the body; they can call the old function by the name ``original``."""
    without: str | None = None
    """Statements that only raise, call or return this name are removed."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Each use of a name, or of an attribute of that name, becomes the expression."""

    def path_in(self, root: Path) -> Path:
        """Return the module in a copy of the repository. Raises CannotApply."""
        return self._located(root)[0]

    def changed_text(self, root: Path = ROOT) -> str:
        """Return the text of the module with the break. Raises CannotApply."""
        if missing := [it for it in self.tests if not (root / it).exists()] or not self.tests:
            raise CannotApply(f"tests are missing: {missing if self.tests else 'none is named'}")
        path, names = self._located(root)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        function = _find(tree, names)
        if function is None:
            raise CannotApply(f"there is no function {self.function}")
        before = ast.dump(function)
        try:
            self._change(function)
            text = ast.unparse(ast.fix_missing_locations(tree))
            compile(text, str(path), "exec")
        except SyntaxError as error:
            raise CannotApply(f"the changed function is not Python: {error.msg}") from None
        if ast.dump(function) == before:
            raise CannotApply("it changes nothing")
        return text

    def problem(self, root: Path = ROOT) -> str | None:
        """Return why the break cannot be applied to the code at ``root``; None if it can."""
        try:
            self.changed_text(root)
        except CannotApply as error:
            return str(error)
        return None

    def _located(self, root: Path) -> tuple[Path, Sequence[str]]:
        names = self.function.split(".")
        for count in range(len(names) - 1, 0, -1):
            module = root.joinpath(PACKAGE, *names[:count])
            for path in (module.with_suffix(".py"), module / "__init__.py"):
                if path.is_file():
                    return path, names[count:]
        raise CannotApply(f"there is no module of {self.function}")

    def _change(self, function: Function) -> None:
        match self.body, self.without, self.instead:
            case str(body), None, {**none} if not none:
                _replace_body(function, body)
            case None, str(name), {**none} if not none:
                _Without(name).change(function)
            case None, None, {**expressions} if expressions:
                _Instead(expressions).change(function)
            case _:
                raise CannotApply("it needs one of body, without and instead")


class _Change(ast.NodeTransformer):
    def change(self, function: Function) -> None:
        """Change the statements of a function, nested functions included."""
        function.body = [self.visit(it) for it in function.body]


class _Without(_Change):
    def __init__(self, name: str) -> None:
        self._name = name

    def visit(self, node: ast.AST) -> ast.AST:
        match node:
            case (
                ast.Raise(exc=ast.expr() as used)
                | ast.Return(value=ast.expr() as used)
                | ast.Expr(value=used)
            ) if _name_of(used) == self._name:
                return ast.Pass()
        return self.generic_visit(node)


class _Instead(_Change):
    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._nodes = {
            name: ast.parse(text, mode="eval").body for name, text in expressions.items()
        }

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            return self._nodes.get(_name_of(node) or "") or self.generic_visit(node)
        return self.generic_visit(node)


def _name_of(used: ast.expr) -> str | None:
    """Return the last name of ``a``, ``a.b``, ``a.b()`` or ``await a.b()``."""
    match used:
        case ast.Await(value=inner) | ast.Call(func=inner):
            return _name_of(inner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return None


def _replace_body(function: Function, body: str) -> None:
    new = ast.parse(textwrap.dedent(body)).body
    if any(isinstance(it, ast.Name) and it.id == ORIGINAL for one in new for it in ast.walk(one)):
        # inside the new function, so that it sees the same names, including those of a class or
        # closure
        original = copy.copy(function)
        original.name, original.decorator_list = ORIGINAL, []
        new.insert(0, original)
    function.body = new


def _find(tree: ast.Module, names: Sequence[str]) -> Function | None:
    scope: ast.AST = tree
    for name in names:
        # the last one: overloads stand before the function itself
        found = [it for it in _definitions(scope) if it.name == name]
        if not found:
            return None
        scope = found[-1]
    return scope if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) else None


def _definitions(scope: ast.AST) -> Iterator[Function | ast.ClassDef]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        else:
            yield from _definitions(node)


def load_breaks(folder: Path = Path(__file__).parent) -> Sequence[Break]:
    """Read all breaks, theme by theme."""
    return [found for path in sorted(folder.glob("*.toml")) for found in _read(path)]


def choose(breaks: Sequence[Break], words: Collection[str]) -> Sequence[Break]:
    """Return the breaks whose theme is in ``words`` or whose id contains a word; by default all."""
    themes = {it.theme for it in breaks}
    return [
        it
        for it in breaks
        if not words or any(it.theme == w if w in themes else w in it.id for w in words)
    ]


def _read(path: Path) -> Iterator[Break]:
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["break"]:
        yield Break(**{**entry, "theme": path.stem, "tests": tuple(entry["tests"])})
