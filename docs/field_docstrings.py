"""Reads the docstrings under the fields of classes, which Python does not keep."""

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType


def field_docstrings(module: ModuleType, name: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield each field and its docstring, of one class of a module or of all."""
    for kind in ast.parse(inspect.getsource(module)).body:
        if isinstance(kind, ast.ClassDef) and name in (None, kind.name):
            for field, text in zip(kind.body, kind.body[1:], strict=False):
                match field, text:
                    case (
                        ast.AnnAssign(target=ast.Name(id=found)),
                        ast.Expr(value=ast.Constant(value=str(meaning))),
                    ):
                        yield found, " ".join(meaning.split())
