"""Tables of cases of one test, which cost less than a test for each of them."""

import inspect
import reprlib
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any], *, ids: Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Run a test with each of the rows, as ``pytest.mark.parametrize``; report all that fail.

    This is for functions without state. The rows share the test's fixtures; each has a ``tmp_path``
    of its own.
    """
    keys = (names,) if isinstance(names, str) else names
    cases = [dict(zip(keys, [it] if len(keys) == 1 else it, strict=True)) for it in rows]
    titles = cases if ids is None else [*ids]
    assert len(titles) == len(cases) > 0

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            failures = []
            for number, (case, title) in enumerate(zip(cases, titles, strict=True)):
                if "tmp_path" in fixtures:
                    own = fixtures["tmp_path"] / str(number)
                    own.mkdir()
                    case = {**case, "tmp_path": own}  # noqa: PLW2901
                failure = _failure(test, {**fixtures, **case})
                if failure is not None:
                    failure.add_note(f"row {number}: {reprlib.repr(title)}")
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(cases)} rows", failures)

        given = inspect.signature(test)
        left = [it for name, it in given.parameters.items() if name not in keys]
        run.__signature__ = given.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _failure(test: Test, arguments: dict[str, Any]) -> Exception | None:
    try:
        test(**arguments)
    except Exception as error:  # noqa: BLE001 - reported with the others
        return error
    except pytest.fail.Exception as error:  # as pytest.raises fails
        return AssertionError(str(error))
    return None
