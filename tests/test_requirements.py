"""Every acceptance id has a test, and every cited id exists."""

import re
from pathlib import Path

from tests.requirements import REQUIREMENTS

TESTS = Path(__file__).parent
_CITED = re.compile(r'mark\.requirement\(((?:"[^"]+"(?:, )?)+)\)')


def cited_ids() -> set[str]:
    return {
        quoted.strip(' "')
        for file in TESTS.rglob("test_*.py")
        for group in _CITED.findall(file.read_text(encoding="utf-8"))
        for quoted in group.split(",")
    }


def test_every_requirement_has_a_test() -> None:
    assert REQUIREMENTS.keys() - cited_ids() == set()


def test_every_cited_requirement_exists() -> None:
    assert cited_ids() - REQUIREMENTS.keys() == set()
