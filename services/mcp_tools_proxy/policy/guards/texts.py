"""All texts of a JSON value, joined to one, for guards to search and replace."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

MAX_CHARS = 4 * 2**20
"""Longer values are not searched, and refused by guards that redact or refuse."""

STEP = 4096
"""Values read between two pauses: 2 ms."""

_AFTER_KEY = '": "'
_AFTER_VALUE = '"\n"'
"""Separators between texts, so that keys and values look like JSON and texts never touch."""


class TextSpan(NamedTuple):
    """A finding in the joined text."""

    start: int
    end: int
    kind: str


_Container = Mapping[str, object] | Sequence[object]
_Place = tuple[int, str | int, bool]
"""The place of a text: the number of its container, its key, and whether it is that key."""


class Texts:
    """All strings of a JSON value, including keys, in one text with their places.

    ``read`` collects them with pauses, so that 600,000 keys do not block the event loop.
    ``without`` are values to skip, such as image data: the ``id`` of the container, and the key.
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
        for number, (container, _, _) in enumerate(self._containers):  # grows during the loop
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
        """Return the end of the text at ``position``."""
        number = bisect_right(self._starts, position) - 1
        return self._starts[number] + len(self._texts[number])

    def start_of_text(self, position: int) -> int:
        """Return the start of the text at ``position``."""
        return self._starts[bisect_right(self._starts, position) - 1]

    def with_replaced(self, spans: Iterable[tuple[TextSpan, str]]) -> object:
        """Return the value with each span replaced by its marker; ``spans`` are in order.

        Only the containers above a change are copied. Overlapping spans get the first one's marker.
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
        """Copy a container and its ancestors, each once."""
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
    """Rename keys in place, in the same order; keys that become equal are numbered."""
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
