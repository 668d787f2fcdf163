"""House rules for names and the first words of docstrings."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.source_files import ROOT, source_files

EVERYDAY_WORDS = frozenset(
    {
        *("aside", "ask", "asked", "asking", "asks", "beside", "gone", "hear", "heard", "hearing"),
        *("hears", "look", "looked", "looking", "looks", "news", "parked", "parking", "room"),
        *("said", "say", "saying", "says", "sight", "tell", "telling", "tells", "told", "vain"),
        *("whom", "whose", "nobody", "somebody", "everybody"),
    }
)
"""Words with private meanings that hid the code's behaviour; use standard terms: return, send,
receive, request, notify, log, poll, capacity, pending …"""

VAGUE_VERBS = frozenset(
    {
        *("Bring", "Give", "Have", "Hear", "Know", "Learn", "Let", "Look", "Make", "Say", "Take"),
        "Tell",
    }
)

GATEWAY = ("services", "mcp_tools_proxy")

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def names_of(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each name that a module defines, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name, node.lineno


def words_of(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("_MAX_BYTES", {"max", "bytes"}),
        ("ask_again", {"ask", "again"}),
        ("TheJSONText", {"the", "json", "text"}),
        ("task", {"task"}),
    ],
)
def test_a_name_is_split_at_underscores_and_capitals(name: str, words: set[str]) -> None:
    assert words_of(name) == words


def is_for_users(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a decorator reads the docstring: typer prints it, an MCP server lists it."""
    return any(re.search(r"command|server\.", ast.unparse(it)) for it in node.decorator_list)


@dataclass(slots=True)
class Findings:
    """Violations of rules, with their places."""

    everyday_words: set[str] = field(default_factory=set)
    """In names; except those of tests, which are sentences in everyday words."""
    vague_verbs: list[str] = field(default_factory=list)
    """At the start of a function's docstring."""
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The gateway's classes by name, including private ones: a search should find one."""

    def add(self, path: Path, tree: ast.AST) -> None:
        self.everyday_words |= {
            f"{path}:{line}: {name}"
            for name, line in names_of(tree)
            if words_of(name) & EVERYDAY_WORDS and not name.startswith("test_")
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node)
                if docstring and docstring.split()[0] in VAGUE_VERBS and not is_for_users(node):
                    self.vague_verbs.append(f"{path}:{node.lineno}: {docstring[:60]}")
            elif isinstance(node, ast.ClassDef) and path.parts[:2] == GATEWAY:
                self.classes[node.name].append(f"{path}:{node.lineno}")


def test_names_and_docstrings_keep_the_rules() -> None:
    """One test for all rules, because parsing the repository takes 5 s of CPU in each worker."""
    found = Findings()
    for path in source_files("services", "tests", "benchmarks", "docs", "docker", "examples"):
        found.add(path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8")))
    assert sorted(found.everyday_words) == []
    assert found.vague_verbs == []
    assert {name: places for name, places in found.classes.items() if len(places) > 1} == {}
