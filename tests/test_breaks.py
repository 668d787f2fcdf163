"""The deliberate breaks apply to the code, and the program that runs them reports correctly."""

from collections import Counter
from pathlib import Path

import pytest

from tests.breaks.catalogue import PACKAGE, Break, CannotApply, choose, load_breaks
from tests.breaks.runner import Verdict, try_all

BREAKS = load_breaks()
WITHOUT_PLUGINS = " ".join(
    f"-p no:{it}" for it in ("anyio", "hypothesispytest", "randomly", "respx", "schemathesis")
)
"""The small repository needs no plugins, which would take a second to load in each run."""

CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--hypothesis-profile")
"""
"""Replaces an option of the omitted plugin."""

MODULE = """
def one() -> int:
    return LIMIT.value

def check(value):
    if value > 1:
        raise TooMany(value)
    return value

class Room:
    def twice(self, value, *, times=2):
        def double():
            return value * times
        return double()

    async def wait(self):
        return 1

    def count(self):
        yield 1

class TooMany(Exception): pass
class LIMIT: value = 1
"""


def test_every_break_applies() -> None:
    """After renaming or rewriting a function, update its breaks."""
    problems = [f"{it.theme}: {it.id}: {why}" for it in BREAKS if (why := it.problem())]
    assert problems == [], "\n".join(problems)


def test_ids_of_breaks_are_unique() -> None:
    assert [id_ for id_, count in Counter(it.id for it in BREAKS).items() if count > 1] == []


def test_breaks_are_chosen_by_theme_or_part_of_their_id() -> None:
    chosen = {(it.theme, it.id == "revoked-token") for it in choose(BREAKS, ["limits", "oked-tok"])}
    assert chosen == {("limits", False), ("auth", True)}


def make_break(
    function: str,
    *,
    body: str | None = None,
    without: str | None = None,
    test: str = "tests/test_one.py",
    **instead: str,
) -> Break:
    return Break(
        theme="room",
        id=f"{function}: {body or without or instead}",
        what="",
        function=f"room.one.{function}",
        body=body,
        without=without,
        instead=instead,
        tests=(test,),
    )


@pytest.mark.parametrize(
    ("change", "expression", "value"),
    [
        (make_break("one", body="return original() + 1"), "one()", 2),
        (make_break("one", value="7"), "one()", 7),
        (make_break("one", LIMIT="Room.twice", value="0"), "one()", 0),
        (make_break("check", without="TooMany"), "check(2)", 2),
        (make_break("Room.twice", body="return original(self, 5)"), "Room().twice(1)", 10),
        (make_break("Room.twice.double", times="3"), "Room().twice(1)", 3),
        (
            make_break("Room.wait", body="return 1 + await original(self)"),
            "drive(Room().wait())",
            2,
        ),
        (
            make_break("Room.count", body="yield 0\nyield from original(self)"),
            "[*Room().count()]",
            [0, 1],
        ),
    ],
)
def test_a_break_changes_its_function(
    repository: Path, change: Break, expression: str, value: object
) -> None:
    names: dict[str, object] = {"drive": drive}
    exec(change.changed_text(repository), names)  # noqa: S102 - the text is from above
    assert eval(expression, names) == value  # noqa: S307


def drive(coroutine: object) -> object:
    try:
        coroutine.send(None)  # type: ignore[attr-defined]
    except StopIteration as end:
        return end.value
    raise AssertionError


@pytest.mark.parametrize(
    "change",
    [
        make_break("three", body="return 2"),
        make_break("LIMIT", body="return 2"),
        make_break("check", without="Forbidden"),
        make_break("one", body="return LIMIT.value"),
        make_break("one", body="return )"),
        make_break("one"),
        make_break("one", body="return 2", test="tests/test_none.py"),
    ],
    ids=lambda change: change.id,
)
def test_a_break_that_cannot_be_applied_is_reported(repository: Path, change: Break) -> None:
    with pytest.raises(CannotApply):
        change.changed_text(repository)


@pytest.mark.slow
async def test_each_break_gets_its_verdict(repository: Path, tmp_path: Path) -> None:
    expected = [
        (make_break("one", body="return 2"), Verdict.CAUGHT),
        (make_break("one", body="return original() + 0"), Verdict.SURVIVED),
        (make_break("three", body="return 3"), Verdict.STALE),
        (make_break("one", body="return 4", test="tests/test_red.py"), Verdict.RED),
        (make_break("one", body="return 5", test="tests/test_empty.py"), Verdict.UNRUN),
    ]
    before = (repository / PACKAGE / "room/one.py").read_text()
    verdicts: dict[str, Verdict] = {}

    def report(change: Break, verdict: Verdict) -> None:
        verdicts[change.id] = verdict

    await try_all(
        [change for change, _ in expected],
        tmp_path / "copies",
        workers=1,
        report=report,
        original=repository,
    )
    assert verdicts == {change.id: verdict for change, verdict in expected}
    assert (repository / PACKAGE / "room/one.py").read_text() == before


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Write a repository of one module and three tests, one of them failing and one empty."""
    files = {
        PACKAGE / "__init__.py": "",
        PACKAGE / "room/__init__.py": "",
        PACKAGE / "room/one.py": MODULE,
        Path("tests/test_one.py"): "from mcp_tools_proxy.room.one import one\n\n\n"
        "def test_one():\n    assert one() == 1\n",
        Path("tests/test_red.py"): "def test_red():\n    assert False\n",
        Path("tests/test_empty.py"): "",
        Path("pytest.ini"): f"[pytest]\naddopts = {WITHOUT_PLUGINS}\n",
        Path("conftest.py"): CONFTEST,
    }
    root = tmp_path / "repository"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root
