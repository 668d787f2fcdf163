"""A table of cases in one test: all rows run, and all failures are named."""

import asyncio
import inspect
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.failure_reports import report_leaves
from tests.support.tables import each_row


def test_all_rows_run_and_failures_are_named() -> None:
    seen = []

    @each_row(("number", "name"), [(1, "a"), (2, "b"), (3, "c"), (4, "d")])
    def test(number: int, name: str) -> None:
        seen.append((number, name))
        assert number % 2 == 1
        if number == 3:
            with pytest.raises(ValueError, match="never"):
                pass

    with pytest.raises(ExceptionGroup, match="3 of 4 rows") as failed:
        test()
    assert seen == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    notes = [note for it in failed.value.exceptions for note in it.__notes__]
    assert notes == [
        f"row {number}: {{'name': {name!r}, 'number': {number + 1}}}"
        for number, name in ((1, "b"), (2, "c"), (3, "d"))
    ]


def test_each_row_has_separate_fixtures_and_a_folder(tmp_path: Path) -> None:
    @each_row("name", ["a", "b"], ids=["first", "second"])
    def test(tmp_path: Path, other: int, name: str) -> None:
        assert other == 7
        assert [*tmp_path.iterdir()] == []
        (tmp_path / name).touch()

    assert [*inspect.signature(test).parameters] == ["tmp_path", "other"]
    test(tmp_path=tmp_path, other=7)
    assert [it.name for it in sorted(tmp_path.rglob("*")) if it.is_file()] == ["a", "b"]


@each_row("count", [0, 1, 2])
@each_row("factor", [1, 3])
def test_tables_can_be_combined(count: int, factor: int) -> None:
    assert (count * factor) % factor == 0


@each_row("wait_s", [0.0, 0.001])
async def test_a_table_may_be_asynchronous(wait_s: float) -> None:
    before = asyncio.get_running_loop().time()
    await asyncio.sleep(wait_s)
    assert asyncio.get_running_loop().time() >= before + wait_s


@each_row("name", ["A_ROW", "ANOTHER_ROW"])
def test_patches_of_a_row_do_not_affect_others(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert not {"A_ROW", "ANOTHER_ROW"} & {*globals()}
    monkeypatch.setitem(globals(), name, 1)


async def test_asynchronous_failures_are_named() -> None:
    @each_row("number", [1, 2, 3])
    async def test(number: int) -> None:
        await asyncio.sleep(0)
        assert number != 2

    with pytest.raises(ExceptionGroup, match="1 of 3 rows"):
        await cast("Coroutine[Any, Any, None]", test())


async def test_a_failure_inside_task_groups_is_reported_as_its_assertion(
    request: pytest.FixtureRequest,
) -> None:
    async def fail(number: int) -> None:
        assert number == 0, f"number {number}"

    async def fail_twice() -> None:
        async with asyncio.TaskGroup() as outer, asyncio.TaskGroup() as inner:
            inner.create_task(fail(1))
            outer.create_task(fail(2))

    with pytest.raises(ExceptionGroup) as failed:
        await fail_twice()
    text = str(report_leaves(request.node, failed))
    assert [text.count(it) for it in ("number 1", "number 2", "Exception Group")] == [1, 1, 0]
    assert text.splitlines()[-1].endswith("AssertionError")
