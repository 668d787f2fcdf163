"""Renders large JSON piece by piece, so that no second copy of it is in memory."""

from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring


def json_text(text: str) -> bytes:
    """Return a text as compact JSON in UTF-8. Raises ValueError for a lone surrogate.

    ``to_json`` gives the same, twice as fast, and leaves the UTF-8 form in the str as long as that
    lives: twice the memory of any text that is not ASCII.
    """
    return encode_basestring(text).encode()


def json_list(items: Iterable[bytes], *, before: bytes = b"") -> Iterator[bytes]:
    """Yield a list of rendered values: its brackets and, each for itself, the values.

    ``before`` is the space in front of each.
    """
    yield b"["
    for number, item in enumerate(items):
        yield b"," + before if number else before
        yield item
    yield b"]"
