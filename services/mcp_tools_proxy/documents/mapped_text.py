"""A changed text with a map to the positions of the original text."""

import sys
from array import array
from bisect import bisect_left, bisect_right
from io import StringIO

from mcp_tools_proxy.domain.fast_dataclass import dataclass

_PIECES_AT_ONCE = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class MappedText:
    """A changed text and its map to the original.

    ``levels`` and ``places`` are the positions in ``text`` and in the original at which their
    distance changes. They are arrays: with objects, 10 MB of "ab- ab- …" took 470 MB.
    """

    text: str
    levels: "array[int]"
    places: "array[int]"

    @property
    def size_bytes(self) -> int:
        """Size of the text and the arrays in memory."""
        return sum(map(sys.getsizeof, (self.text, self.levels, self.places)))

    def level_of(self, place: int) -> int:
        """Return the position in ``text`` of a position in the original."""
        at = bisect_right(self.places, place) - 1
        level = self.levels[at] + place - self.places[at]
        return min(level, self.levels[at + 1]) if at + 1 < len(self.levels) else level

    def start_of(self, level: int) -> int:
        """Return the original start of the character at a position in ``text``."""
        at = bisect_right(self.levels, level) - 1
        return self._place(at, level)

    def end_of(self, level: int) -> int:
        """Return the original end of the character before a position in ``text``."""
        at = bisect_left(self.levels, level)
        if at < len(self.levels) and self.levels[at] == level:
            return self.places[at]
        return self._place(at - 1, level)

    def _place(self, at: int, level: int) -> int:
        place = self.places[at] + level - self.levels[at]
        return min(place, self.places[at + 1]) if at + 1 < len(self.places) else place


class TwiceMappedText:
    """A changed text of a changed text, with the positions of the original."""

    def __init__(self, first: MappedText, second: MappedText) -> None:
        self._first, self._second = first, second
        self.text = second.text
        self.size_bytes = first.size_bytes + second.size_bytes

    def level_of(self, place: int) -> int:
        """Return the position in ``text`` of a position in the original."""
        return self._second.level_of(self._first.level_of(place))

    def start_of(self, level: int) -> int:
        """Return the original start of the character at a position in ``text``."""
        return self._first.start_of(self._second.start_of(level))

    def end_of(self, level: int) -> int:
        """Return the original end of the character before a position in ``text``."""
        return self._first.end_of(self._second.end_of(level))


class TextEditor:
    """Builds a MappedText by replacements in ascending order."""

    def __init__(self, text: str) -> None:
        self.done = 0
        """End of the last replaced part in the original."""
        self._text = text
        self._level = 0
        self._joined, self._pieces = StringIO(), list[str]()
        self._levels, self._places = array("I", (0,)), array("I", (0,))

    def replace(self, start: int, end: int, new: str) -> int:
        """Replace a part; return the position of ``new`` in the changed text."""
        self._pieces += (self._text[self.done : start], new)
        if len(self._pieces) > _PIECES_AT_ONCE:
            self._joined.writelines(self._pieces)
            self._pieces.clear()
        level = self._level + start - self.done
        self._level = level + len(new)
        if len(new) != end - start:
            self._levels.extend((level, self._level))
            self._places.extend((start, end))
        self.done = end
        return level

    def finish(self) -> MappedText:
        """Return the changed text."""
        self._joined.writelines((*self._pieces, self._text[self.done :]))
        return MappedText(self._joined.getvalue(), self._levels, self._places)
