"""The texts of a JSON value, joined to one: guards search it, and replace parts of it."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

MAX_CHARS = 4 * 2**20
"""Longer values are not searched: a guard that redacts or refuses then refuses them."""

STEP = 4096
"""How many values are read between two pauses: 2 ms."""

_AFTER_KEY = '": "'
_AFTER_VALUE = '"\n"'
"""What stands between two texts: so keys and values read as in JSON, and no text meets another."""


class TextSpan(NamedTuple):
    """A part of the joined text that a guard found."""

    start: int
    end: int
    kind: str


_Container = Mapping[str, object] | Sequence[object]
_Place = tuple[int, str | int, bool]
"""Where a text stands: the number of its container, the key there, and whether it is that key."""


class Texts:
    """All strings of a JSON value, keys included, in one text with their places.

    ``read`` collects them and pauses in between, so that a value of 600,000 keys stops no event
    loop. ``without`` are values that are not read, such as the data of an image: the ``id`` of each
    one's container, and its key there.
    """

    def __init__(self, value: object, without: Collection[tuple[int, str | int]] = ()) -> None:
        self._without = without
        self._containers: list[tuple[_Container, int, str | int]] = [([value], -1, 0)]
        self._places: list[_Place] = []
        self._texts: list[str] = []
        self._starts: list[int] = []
        self._length = 0
        self._parts: list[str] = []
        self.joined = ""
        self.is_too_long = False

    def read(self) -> Iterator[None]:
        """Collect the texts; each item is a pause."""
        seen = 0
        chunks: list[str] = []
        for number, (container, _, _) in enumerate(self._containers):  # grows meanwhile
            for key, item in _items(container):
                self._read_item(number, container, key, item)
                seen += 1
                if not seen % STEP:
                    chunks.append("".join(self._parts))
                    self._parts.clear()
                    yield
            if self._length > MAX_CHARS:
                self.is_too_long = True
                return
        self.joined = "".join((*chunks, *self._parts))

    def _read_item(self, number: int, container: _Container, key: str | int, item: object) -> None:
        if isinstance(key, str):
            self._add(key, (number, key, True), _AFTER_KEY)
        if self._without and (id(container), key) in self._without:
            return
        if isinstance(item, str):
            self._add(item, (number, key, False), _AFTER_VALUE)
        elif isinstance(item, dict | list | tuple):
            self._containers.append((item, number, key))

    def _add(self, text: str, place: _Place, separator: str) -> None:
        self._starts.append(self._length)
        self._places.append(place)
        self._texts.append(text)
        self._parts += (text, separator)
        self._length += len(text) + len(separator)

    def end_of_text(self, position: int) -> int:
        """Return where the text that holds ``position`` ends."""
        number = bisect_right(self._starts, position) - 1
        return self._starts[number] + len(self._texts[number])

    def start_of_text(self, position: int) -> int:
        """Return where the text that holds ``position`` starts."""
        return self._starts[bisect_right(self._starts, position) - 1]

    def with_replaced(self, spans: Iterable[tuple[TextSpan, str]]) -> object:
        """Return the value with each span replaced by its marker; ``spans`` are in order.

        Only the containers above a change are copied. Of spans that overlap the first one counts,
        up to where the last one ends.
        """
        values: dict[int, dict[str | int, str]] = {}
        keys: dict[int, dict[str | int, str]] = {}
        for number, pieces in self._pieces_by_text(spans).items():
            container, key, is_key = self._places[number]
            text = _replaced(self._texts[number], pieces)
            (keys if is_key else values).setdefault(container, {})[key] = text
        return self._rebuilt(values, keys)

    def _pieces_by_text(
        self, spans: Iterable[tuple[TextSpan, str]]
    ) -> dict[int, list[tuple[int, int, str]]]:
        """Split the spans at the ends of texts; positions are those within a text."""
        pieces: dict[int, list[tuple[int, int, str]]] = {}
        for span, marker in spans:
            number = bisect_right(self._starts, span.start) - 1
            while number < len(self._starts) and self._starts[number] < span.end:
                start = self._starts[number]
                end = start + len(self._texts[number])
                first, last = max(span.start, start), min(span.end, end)
                if first < last:
                    pieces.setdefault(number, []).append((first - start, last - start, marker))
                number += 1
        return pieces

    def _rebuilt(
        self,
        values: Mapping[int, Mapping[str | int, str]],
        keys: Mapping[int, Mapping[str | int, str]],
    ) -> object:
        copies: dict[int, dict[str, object] | list[object]] = {}
        for number in (*values, *keys):
            self._copy(number, copies)
        for number, texts in values.items():
            for key, text in texts.items():
                _put(copies[number], key, text)
        for number, renamed in keys.items():  # after the values, which are found by their old keys
            container = copies[number]
            if isinstance(container, dict):
                _rename(container, renamed)
        return copies[0][0] if copies else self._containers[0][0][0]  # type: ignore[index]

    def _copy(self, number: int, copies: dict[int, dict[str, object] | list[object]]) -> None:
        """Copy a container and all above it; each once."""
        below: dict[str, object] | list[object] | None = None
        key: str | int = 0
        while number >= 0:
            container, parent, own_key = self._containers[number]
            known = copies.get(number)
            own = known
            if own is None:
                own = dict(container) if isinstance(container, Mapping) else list(container)
                copies[number] = own
            if below is not None:
                _put(own, key, below)
            if known is not None:
                return
            below, key, number = own, own_key, parent


def _items(
    container: Mapping[str, object] | Sequence[object],
) -> Iterable[tuple[str | int, object]]:
    return container.items() if isinstance(container, Mapping) else enumerate(container)


def _put(container: dict[str, object] | list[object], key: str | int, value: object) -> None:
    container[key] = value  # type: ignore[index]


def _rename(container: dict[str, object], renamed: Mapping[str | int, str]) -> None:
    """Rename keys in place, in the same order; two that became equal are numbered."""
    items = list(container.items())
    container.clear()
    for key, value in items:
        name = renamed.get(key, key)
        while name in container:
            name = f"{name} {len(container)}"
        container[name] = value


def _replaced(text: str, pieces: Iterable[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, marker in pieces:
        if end <= at:
            continue
        if start >= at:
            parts += (text[at:start], marker)
        at = end
    return "".join((*parts, text[at:]))
