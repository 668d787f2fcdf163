"""Failures of task groups and tables, reported as the assertions that failed."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from _pytest._code.code import ExceptionChainRepr


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield what failed: an error itself, or those in a group, however deep it is nested."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def report_leaves(
    item: pytest.Item, failure: pytest.ExceptionInfo[BaseException]
) -> ExceptionChainRepr | None:
    """Return the report of a group's leaves, one after the other; None if there is no group.

    The group's own report has a page of the frames of event loops and task groups for each level.
    """
    found = [*leaves(failure.value)]
    if found == [failure.value] or any(leaf.__traceback__ is None for leaf in found):
        return None  # a group of errors that nobody raised is shown as it is
    chain: list[Any] = []
    for leaf in found:
        shown = item.repr_failure(pytest.ExceptionInfo.from_exception(leaf))
        assert isinstance(shown, ExceptionChainRepr)
        chain += shown.chain
    return ExceptionChainRepr(_separated(chain))


def _separated(chain: Sequence[Any]) -> Sequence[Any]:
    """Put a line between the parts, which are printed without one."""
    ends = ("",) * (len(chain) - 1) + (None,)
    return [(text, crash, end) for (text, crash, _), end in zip(chain, ends, strict=True)]
