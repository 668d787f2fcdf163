"""Tells what a message in the code may be, for ``error_messages.py``.

The code is read, not run: what is known only when an error happens stands as ``{limit}``. What a
variable, a function or a parameter of ours may be is looked up where it is assigned, returned or
passed.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1] / "services/mcp_tools_proxy"

PLACEHOLDER = re.compile(r"\{[^}]*\}")
_COPIES = frozenset({"str", "printable"})
"""Functions that return the text they get."""

_OPAQUE: Mapping[str, str] = {
    "problem_of": "{problem}",
    "place_of": "{place}",
    "type_of": "{type}",
    "reason_of": "{reason}",
    "_path": "{place}",
    "normalize": "{text}",
}
"""Functions whose result is shown as a placeholder: its texts have a list of their own, or none."""

_NAMES: Mapping[str, str] = {"join": "names", "loc": "argument", "removeprefix": "rule"}
"""The placeholders of expressions whose last name does not tell what they are."""

_MAX_CALLERS = 4
"""How many calls deep a text may be passed on before it becomes a message."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Texts = tuple[str, ...]
Known = Mapping[str, Texts]
"""What the parameters of a function are, where it is known who calls."""


class Module:
    """One file of the gateway: its syntax, and the texts in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.nodes = list(ast.walk(self.tree))
        self._parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def values(self) -> Mapping[str, object]:
        """What its names stand for in Python."""
        parts = self.path.relative_to(ROOT.parent).with_suffix("").parts
        return vars(import_module(".".join(parts).removesuffix(".__init__")))

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a node is in, the innermost first."""
        while (above := self._parents.get(node)) is not None:
            yield above
            node = above

    def function_of(self, node: ast.AST) -> Function | None:
        """Return the function around a node."""
        return next((it for it in self.around(node) if isinstance(it, Function)), None)

    def reasons(self) -> Iterator[str]:
        """Yield the texts of its ValueErrors, and of exceptions that it derives from them."""
        for node in self.nodes:
            match node:
                case ast.Call(func=ast.Name(id="ValueError"), args=[text, *_]):
                    yield from self.messages(text)
                case ast.Call(func=ast.Attribute(attr="__init__"), args=[text]):
                    yield from self.messages(text)

    def messages(self, node: ast.expr, depth: int = 0) -> Texts:
        """Return what a message may be: once for each call that passes a text for a part of it."""
        function = self.function_of(node)
        if function is None or function.name == "__init__" or depth == _MAX_CALLERS:
            return self.texts(node, {})
        parts = _parts(function, node)
        found: list[str] = []
        for module, call in callers_of(self, function) if parts else ():
            passed = {
                name: texts
                for name, value in arguments_of(function, call).items()
                if name in parts and any(map(has_words, texts := module.messages(value, depth + 1)))
            }
            found += self.texts(node, passed)
        return tuple(dict.fromkeys(found or self.texts(node, {})))

    def texts(self, node: ast.expr, known: Known) -> Texts:
        """Return what an expression may be as a text; a placeholder if it is none of ours."""
        match node:
            case ast.Name(id=name):
                return self._of_name(node, name, known)
            case ast.Call():
                return self._of_call(node, known)
            case ast.Constant(value=value):
                return () if value is None else (str(value),)
            case ast.FormattedValue(value=value):
                return self.texts(value, known)
            case ast.JoinedStr(values=parts):
                return self._joined(parts, known)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self._joined((left, right), known)
        choices = _choices(node)
        return self._each(choices, known) if choices else (_placeholder(node),)

    def returned(self, function: Function, known: Known) -> Texts:
        """Return what a function of this file may return."""
        nodes = (it.value for it in ast.walk(function) if isinstance(it, ast.Return))
        return self._each((node for node in nodes if node), known)

    def _joined(self, parts: Iterable[ast.expr], known: Known) -> Texts:
        return tuple("".join(each) for each in product(*(self.texts(it, known) for it in parts)))

    def _each(self, nodes: Iterable[ast.expr], known: Known) -> Texts:
        return tuple(text for node in nodes for text in self.texts(node, known))

    def _of_name(self, node: ast.expr, name: str, known: Known) -> Texts:
        """Return the texts of a parameter, of a variable of the function, or of a constant."""
        if name in known:
            return known[name]
        if name.lstrip("_").isupper():
            return (str(self.values[name]),)
        found: Texts = ()
        known = {**known, name: (_placeholder(node),)}  # for "text = cut(text)"
        for block in self.around(node):
            if isinstance(block, Function | ast.match_case) and not found:
                found = self._each(_assigned(block, name), known)
        return found if any(map(has_words, found)) else (_placeholder(node),)

    def _of_call(self, call: ast.Call, known: Known) -> Texts:
        name = last_name(call.func)
        if name == "quote":
            return (f'"{_placeholder(call.args[0])}"',)
        if name in _COPIES:
            return self.texts(call.args[0], known)
        if name in _OPAQUE:
            return (_OPAQUE[name],)
        if name == "join_first":
            return self._described(call, known)
        found = _text_function(self, name)
        if found is None:
            return (_placeholder(call),)
        module, function = found
        passed = {key: self.texts(it, known) for key, it in arguments_of(function, call).items()}
        return module.returned(function, passed)

    def _described(self, call: ast.Call, known: Known) -> Texts:
        """Return the texts of what ``join_first`` joins: of one item each."""
        items, *described = call.args
        found = _text_function(self, last_name(described[0])) if described else None
        if found is None:
            return self.texts(items, known)
        module, function = found
        return module.returned(function, {})


@cache
def modules() -> Sequence[Module]:
    """Return the files of the gateway, parsed."""
    return [Module(path) for path in sorted(ROOT.rglob("*.py"))]


@cache
def calls() -> Mapping[str, Sequence[tuple[Module, ast.Call]]]:
    """Return all calls by the name of what is called."""
    found: dict[str, list[tuple[Module, ast.Call]]] = defaultdict(list)
    for module in modules():
        for node in module.nodes:
            if isinstance(node, ast.Call):
                found[last_name(node.func)].append((module, node))
    return found


@cache
def _text_functions() -> Mapping[str, Sequence[tuple[Module, Function]]]:
    """Return the functions that return a text, by their name."""
    found: dict[str, list[tuple[Module, Function]]] = defaultdict(list)
    for module in modules():
        for node in module.nodes:
            if isinstance(node, Function) and node.returns and ast.unparse(node.returns) == "str":
                found[node.name].append((module, node))
    return found


def _text_function(module: Module, name: str) -> tuple[Module, Function] | None:
    """Return the function of that name: the module's own, or the only one that there is."""
    found = _text_functions()[name]
    own = [it for it in found if it[0] is module]
    candidates = own or ([] if name.startswith("_") else found)
    return candidates[0] if len(candidates) == 1 else None


def callers_of(module: Module, function: Function) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the calls of a function, or of a method; of a private one in its own module only."""
    is_method = isinstance(next(module.around(function)), ast.ClassDef)
    for caller, call in calls()[function.name]:
        is_private = function.name.startswith("_")
        if isinstance(call.func, ast.Attribute) == is_method and (
            caller is module or not is_private
        ):
            yield caller, call


def _parts(function: Function, node: ast.expr) -> set[str]:
    """Return the parameters of the function that an expression is built from."""
    names = {it.id for it in ast.walk(node) if isinstance(it, ast.Name)}
    for name in tuple(names):
        for value in _assigned(function, name):
            names |= {it.id for it in ast.walk(value) if isinstance(it, ast.Name)}
    arguments = function.args
    return names & {it.arg for it in (*arguments.args, *arguments.kwonlyargs)}


def arguments_of(function: Function, call: ast.Call) -> Mapping[str, ast.expr]:
    """Return what a call passes, by the names of the parameters."""
    names = [it.arg for it in function.args.args if it.arg not in ("self", "cls")]
    by_name = {it.arg: it.value for it in call.keywords if it.arg}
    return {**dict(zip(names, call.args, strict=False)), **by_name}


def _assigned(block: ast.AST, name: str) -> Iterator[ast.expr]:
    """Yield what is assigned to a variable in a block, or added to it."""
    for node in ast.walk(block):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                yield value


def has_words(text: str) -> bool:
    """Return whether there are words of ours beside placeholders."""
    return any(map(str.isalpha, PLACEHOLDER.sub("", text)))


def _choices(node: ast.expr) -> Sequence[ast.expr]:
    """Return the expressions one of which is the value of this one."""
    match node:
        case ast.IfExp(body=first, orelse=second):
            return (first, second)
        case ast.BoolOp(values=values):
            return values
    return ()


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


def _placeholder(node: ast.expr) -> str:
    name = last_name(node).strip("_").lower()
    return f"{{{_NAMES.get(name, name)}}}"
