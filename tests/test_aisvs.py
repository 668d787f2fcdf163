"""The table of security requirements is complete and names existing tests."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.support.tables import named_row

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/reference/aisvs.md").read_text(encoding="utf-8")
SECTIONS = {
    "9.1": 3,
    "9.2": 10,
    "9.3": 8,
    "9.4": 4,
    "9.5": 6,
    "9.6": 3,
    "10.1": 3,
    "10.2": 7,
    "10.3": 5,
    "10.4": 9,
}
"""Number of requirements in each section of AISVS 1.0 and 1.01-dev."""
REQUIRED = {
    *(f"{section}.{number + 1}" for section, count in SECTIONS.items() for number in range(count)),
    *(f"MCP{number + 1:02}:2025" for number in range(10)),
}
ROWS = re.findall(r"^\| (\d+\.\d+\.\d+|MCP\d\d:2025)(?: L\d)? \|(.*)\|$", PAGE, re.MULTILINE)
TEST_IDS = sorted(set(re.findall(r"`(tests/[^`]*::[^`]*)`", PAGE)))


@cache
def functions_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(it.name for it in ast.walk(tree) if isinstance(it, functions))


def test_every_named_test_exists() -> None:
    assert TEST_IDS
    for test_id in TEST_IDS:
        with named_row(test_id):
            path, _, name = test_id.partition("::")
            assert name in functions_in(path)


def test_no_requirement_is_missing() -> None:
    assert {id_ for id_, _ in ROWS} == REQUIRED


def test_every_state_is_known_and_met_requirements_name_a_test() -> None:
    for id_, row in ROWS:
        with named_row(id_, row):
            (state,) = re.findall(r"\*\*(met|partly|not|n/a)\*\*", row)
            assert state not in ("met", "partly") or "::test_" in row, id_
