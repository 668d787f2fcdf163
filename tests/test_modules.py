"""Each module contains one complete concept; none exists only to shorten another."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.source_files import ROOT

SERVICES = ROOT / "services"
MOST_LINES = 600
FEW_LINES = 80

ALLOWED_SMALL = {
    "console.pages.limits_page",
    "downstream.components.build_components",
    "gateway.check_worker",
    "server.stdio_server",
}
"""Modules with a single importer that may have few lines. This list only shrinks."""

ALLOWED_LONG: frozenset[str] = frozenset()
"""Modules that may have more lines. This list only shrinks."""


def modules() -> Mapping[str, Path]:
    """Return the modules of both services by dotted name."""
    paths = sorted(SERVICES.rglob("*.py"))
    return {".".join(path.relative_to(SERVICES).with_suffix("").parts): path for path in paths}


def targets(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that a module imports; an imported name may be a module, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def short_name(module: str) -> str:
    return module.removeprefix("mcp_tools_proxy.")


def test_no_small_module_has_a_single_importer() -> None:
    found = modules()
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for name, path in found.items():
        for target in targets(ast.parse(path.read_text(encoding="utf-8"))):
            if target != name:
                importers[target].add(name)
    small = {
        short_name(name)
        for name, path in found.items()
        if path.name != "__init__.py" and len(importers[name]) == 1 and lines_of(path) <= FEW_LINES
    }
    assert small == ALLOWED_SMALL


def test_no_module_is_too_long() -> None:
    long = {short_name(name) for name, path in modules().items() if lines_of(path) > MOST_LINES}
    assert long == ALLOWED_LONG


def test_names_of_classes_are_unique() -> None:
    """Also those of private classes: a search for a name should find one class."""
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and name.startswith("mcp_tools_proxy."):
                classes[node.name].append(f"{short_name(name)}:{node.lineno}")
    assert {name: places for name, places in classes.items() if len(places) > 1} == {}
