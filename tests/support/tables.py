"""Tables of cases in one test, which cost less than one test for each."""

import inspect
import reprlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, cast

import pytest

Test = Callable[..., Coroutine[Any, Any, None] | None]


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any], *, ids: Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Run a test with each row, like ``pytest.mark.parametrize``; report all failures.

    For functions without state. The rows share an event loop and the test's fixtures, but each has
    a separate ``tmp_path`` and ``monkeypatch``.
    """
    keys = (names,) if isinstance(names, str) else names
    cases = [dict(zip(keys, [it] if len(keys) == 1 else it, strict=True)) for it in rows]
    titles = cases if ids is None else [*ids]
    assert len(titles) == len(cases) > 0

    def decorate(test: Test) -> Test:
        @wraps(test)
        async def run_async(**fixtures: Any) -> None:
            failures = _Failures(titles)
            for number, case in enumerate(cases):
                with failures.of(number), _own(fixtures, number) as own:
                    done = test(**own, **case)
                    assert done is not None
                    await done
            failures.report()

        @wraps(test)
        def run(**fixtures: Any) -> None:
            failures = _Failures(titles)
            for number, case in enumerate(cases):
                with failures.of(number), _own(fixtures, number) as own:
                    test(**own, **case)
            failures.report()

        chosen: Any = run_async if inspect.iscoroutinefunction(test) else run
        given = inspect.signature(test)
        left = [it for name, it in given.parameters.items() if name not in keys]
        chosen.__signature__ = given.replace(parameters=left)
        return cast("Test", chosen)

    return decorate


@contextmanager
def named_row(*row: object) -> Iterator[None]:
    """Name a table's row in the failure of a block, for tests whose rows share a service."""
    try:
        yield
    except Exception as error:
        error.add_note(f"Row: {', '.join(map(repr, row))}")
        raise


class _Failures:
    def __init__(self, titles: Sequence[object]) -> None:
        self._titles = titles
        self._failures: list[Exception] = []

    @contextmanager
    def of(self, number: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - reported with the others
            self._add(error, number)
        except pytest.fail.Exception as error:  # like pytest.raises
            self._add(AssertionError(str(error)), number)

    def _add(self, failure: Exception, number: int) -> None:
        failure.add_note(f"row {number}: {reprlib.repr(self._titles[number])}")
        self._failures.append(failure)

    def report(self) -> None:
        if self._failures:
            count = f"{len(self._failures)} of {len(self._titles)} rows"
            raise ExceptionGroup(count, self._failures)


@contextmanager
def _own(fixtures: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        own = dict(fixtures)
        if "monkeypatch" in own:
            own["monkeypatch"] = patch
        if "tmp_path" in own:
            own["tmp_path"] /= str(number)
            own["tmp_path"].mkdir()
        yield own
