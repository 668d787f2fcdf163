"""What styles of office files have in common: how they inherit, and the smallest text."""

from collections.abc import Callable, Hashable
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Style = TypeVar("_Style")
_Found = TypeVar("_Found")

SMALLEST_POINTS = 1.5
"""Text of at most this size cannot be read."""


def inherited(
    key: _Key,
    known: dict[_Key, _Found],
    nothing: _Found,
    style_of: Callable[[_Key], tuple[_Style, _Key] | None],
    derived: Callable[[_Found, _Style], _Found],
) -> _Found:
    """Return what a style has with all that it inherits; each style is read once, and ``known``.

    ``style_of`` returns a style and the key of the one that it is based on; None for an unknown
    key. ``derived`` adds a style to what it inherits. Cycles end, and no chain is too long: one of
    20,000 styles exceeded Python's recursion, and a limit of 25 let hidden text through.
    """
    unknown: dict[_Key, _Style] = {}
    while key not in known and key not in unknown and (found := style_of(key)) is not None:
        unknown[key], key = found
    result = known.get(key, nothing)
    for name, style in reversed(unknown.items()):
        result = known[name] = derived(result, style)
    return result
