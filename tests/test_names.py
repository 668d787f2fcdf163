"""House rules for names and the first words of docstrings."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.source_files import ROOT, source_files

Modules = Mapping[Path, ast.AST]

EVERYDAY_WORDS = frozenset(
    {
        *("aside", "ask", "asked", "asking", "asks", "beside", "gone", "hear", "heard", "hearing"),
        *("hears", "look", "looked", "looking", "looks", "news", "parked", "parking", "room"),
        *("said", "say", "saying", "says", "sight", "tell", "telling", "tells", "told", "vain"),
        *("whom", "whose", "nobody", "somebody", "everybody"),
    }
)
"""Words that had a private meaning each, and hid what the code does; the trade has a word for all
of them: return, send, receive, request, notify, log, poll, capacity, pending …"""

VAGUE_VERBS = frozenset(
    {
        *("Bring", "Give", "Have", "Hear", "Know", "Learn", "Let", "Look", "Make", "Say", "Take"),
        "Tell",
    }
)

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@pytest.fixture(scope="module")
def all_modules() -> Modules:
    """Parse every module; only one of the workers has to."""
    return {
        path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"))
        for path in source_files("services", "tests", "benchmarks", "docs", "docker", "examples")
    }


@pytest.fixture(scope="module")
def modules(all_modules: Modules) -> Modules:
    """Return those of ``services``, by their paths in it."""
    return {
        path.relative_to("services"): tree
        for path, tree in all_modules.items()
        if path.is_relative_to("services")
    }


def names_of(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each name that a module gives to something, with its line."""
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
def test_a_name_is_taken_apart_at_underscores_and_capitals(name: str, words: set[str]) -> None:
    assert words_of(name) == words


def test_no_name_has_an_everyday_word_with_a_private_meaning(all_modules: Modules) -> None:
    """Names of tests are sentences, written in everyday words."""
    found = {
        f"{path}:{line}: {name}"
        for path, tree in all_modules.items()
        for name, line in names_of(tree)
        if words_of(name) & EVERYDAY_WORDS and not name.startswith("test_")
    }
    assert sorted(found) == []


def is_for_users(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a decorator reads the docstring: typer prints it, an MCP server lists it."""
    return any(re.search(r"command|server\.", ast.unparse(it)) for it in node.decorator_list)


def test_docstrings_of_functions_do_not_begin_with_a_vague_verb(all_modules: Modules) -> None:
    found = [
        f"{path}:{node.lineno}: {docstring.partition(chr(10))[0]}"
        for path, tree in all_modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_for_users(node)
        if (docstring := ast.get_docstring(node)) and docstring.split()[0] in VAGUE_VERBS
    ]
    assert found == []


def test_no_two_classes_of_the_gateway_have_one_name(modules: Modules) -> None:
    """Private ones, too: whoever searches for a name should find one class."""
    places = defaultdict(list)
    for path, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and path.parts[0] == "mcp_tools_proxy":
                places[node.name].append(f"{path}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_run_is_until_something_ends_it(modules: Modules) -> None:
    """One use is ``call``; a context manager is ``lifespan`` or a noun."""
    found = [
        f"{path}:{node.lineno}: {ast.get_docstring(node)}"
        for path, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name == "run" and " until " not in str(ast.get_docstring(node))
    ]
    assert found == []
