"""Reports failures of task groups and tables as the failed assertions."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from _pytest._code.code import ExceptionChainRepr


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, or the errors in a group at any depth."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def report_leaves(
    item: pytest.Item, failure: pytest.ExceptionInfo[BaseException]
) -> ExceptionChainRepr | None:
    """Return a report of a group's errors in sequence; None if the error is not a group.

    The group's own report has a page of frames of event loops and task groups for each level.
    """
    found = [*leaves(failure.value)]
    if found == [failure.value] or any(leaf.__traceback__ is None for leaf in found):
        return None  # a group that was never raised is shown unchanged
    chain: list[Any] = []
    for leaf in found:
        shown = item.repr_failure(pytest.ExceptionInfo.from_exception(leaf))
        assert isinstance(shown, ExceptionChainRepr)
        chain += shown.chain
    return ExceptionChainRepr(_separated(chain))


def _separated(chain: Sequence[Any]) -> Sequence[Any]:
    ends = ("",) * (len(chain) - 1) + (None,)
    return [(text, crash, end) for (text, crash, _), end in zip(chain, ends, strict=True)]
