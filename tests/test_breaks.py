"""The deliberate breaks apply to the code as it is, and the tool that tries them is right."""

from collections import Counter
from pathlib import Path

import pytest

from tests.breaks.catalogue import PACKAGE, ROOT, Break, choose, load_breaks
from tests.breaks.runner import Verdict, try_all

BREAKS = load_breaks()
WITHOUT_PLUGINS = " ".join(
    f"-p no:{it}" for it in ("anyio", "hypothesispytest", "randomly", "respx", "schemathesis")
)
"""Loading what the small repository does not need takes a second for each run."""


def test_every_break_applies() -> None:
    """Whoever changes the line that a break changes moves the break along, or replaces it."""
    problems = [f"{it.package}: {it.id}: {why}" for it in BREAKS if (why := it.problem())]
    assert problems == [], "\n".join(problems)


def test_no_two_breaks_have_one_id() -> None:
    assert [id_ for id_, count in Counter(it.id for it in BREAKS).items() if count > 1] == []


def test_every_package_is_broken() -> None:
    packages = {path.parent.name for path in (ROOT / PACKAGE).glob("*/__init__.py")}
    assert {it.package for it in BREAKS} == packages


def test_breaks_are_chosen_by_package_or_by_a_part_of_their_id() -> None:
    words = ["policy", "revoked-token"]
    chosen = {(it.package, it.id == "revoked-token") for it in choose(BREAKS, words)}
    assert chosen == {("policy", False), ("auth", True)}


def make_break(
    new: str,
    *,
    old: str = "return 1",
    file: str = "room/one.py",
    test: str = "tests/test_one.py",
) -> Break:
    return Break(package="room", id=new, what="", file=file, old=old, new=new, tests=(test,))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (make_break("return 2"), None),
        (make_break("return 2", old="return"), "room/one.py has the old text 2 times"),
        (make_break("return 2", old="return 3"), "room/one.py has the old text 0 times"),
        (make_break("return )"), "the new text is not Python"),
        (make_break("SELECT 2", old="SELECT 1", file="room/one.sql"), None),
        (make_break("return 2", test="tests/test_none.py"), "there is no tests/test_none.py"),
    ],
)
def test_a_break_that_cannot_be_tried_says_why(
    repository: Path, change: Break, problem: str | None
) -> None:
    assert change.problem(repository) == problem


@pytest.mark.slow
async def test_each_break_gets_its_verdict(repository: Path, tmp_path: Path) -> None:
    breaks = [
        make_break("return 2"),
        make_break("return 1 + 0"),
        make_break("return 3", old="return 5"),
        make_break("return 4", test="tests/test_red.py"),
        make_break("raise SystemExit", old="ONE = 1"),
    ]
    verdicts: dict[str, Verdict] = {}

    def report(change: Break, verdict: Verdict) -> None:
        verdicts[change.id] = verdict

    await try_all(breaks, tmp_path / "copies", workers=1, report=report, original=repository)
    assert verdicts == {
        "return 2": Verdict.CAUGHT,
        "return 1 + 0": Verdict.SURVIVED,
        "return 3": Verdict.STALE,
        "return 4": Verdict.RED,
        "raise SystemExit": Verdict.UNRUN,
    }
    assert "return 1\n" in (repository / PACKAGE / "room/one.py").read_text()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Write a repository of one module and two tests, one of which is red."""
    files = {
        PACKAGE / "__init__.py": "",
        PACKAGE / "room/__init__.py": "",
        PACKAGE / "room/one.py": "def one() -> int:\n    return 1\n\n\ndef two() -> int:\n"
        "    return one() + 1\n\n\nONE = 1\n",
        PACKAGE / "room/one.sql": "SELECT 1;\n",
        Path("tests/test_one.py"): "from mcp_tools_proxy.room.one import one\n\n\n"
        "def test_one():\n    assert one() == 1\n",
        Path("tests/test_red.py"): "def test_red():\n    assert False\n",
        Path("pytest.ini"): f"[pytest]\naddopts = {WITHOUT_PLUGINS}\n",
    }
    root = tmp_path / "repository"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root
