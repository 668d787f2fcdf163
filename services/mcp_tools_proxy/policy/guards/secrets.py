"""Formats of known secrets, by the rules of Kingfisher, which run in linear time.

Kingfisher's library is an extra of 50 to 70 MB, which nothing imports where the guard is off.
It can ask services whether a secret is valid, and revoke it: nothing of that is used here.
"""

from collections.abc import Collection, Iterator
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mcp_tools_proxy.policy.guards.texts import Texts, TextSpan

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

EXTRA = "secrets"
"""The extra of the package that has the library."""


def is_installed() -> bool:
    """Return whether the library is there."""
    return find_spec("kingfisher_sdk") is not None


@cache
def scanner() -> "Scanner":
    """Return the compiled rules. The first time takes 4 s of CPU: call it in a thread."""
    from kingfisher_sdk import Rules, Scanner  # noqa: PLC0415 - an extra

    return Scanner(Rules(confidence="medium", cache=False), base64=False)


MAX_SCANS = 8
"""How often a value is scanned whose secrets seem to reach into the next text."""

UNCLEAR = "too_many"
"""The kind of finding of a value that needs more scans."""


def find_secrets(texts: Texts, _hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find secrets; the kind is that of the rule, such as ``github-pat``.

    The start of a key in one text and the end of another key in the next one match as one key. So
    a secret ends with its text, and the rest is scanned again.
    """
    begin = 0
    for _ in range(MAX_SCANS):
        for span in _scan(texts.joined, begin):
            end = texts.end_of_text(span.start)
            if span.end <= end:
                yield span
                continue
            if span.start < end:
                yield span._replace(end=end)
            begin = max(end, span.start + 1)
            break
        else:
            return
    yield TextSpan(begin, len(texts.joined), UNCLEAR)


def _scan(joined: str, begin: int) -> Iterator[TextSpan]:
    """Yield the secrets from a place on, in order, without overlaps."""
    data = joined[begin:].encode(errors="replace")
    found = [(it.location, it.rule_id) for it in scanner().scan(data) if it.visible]
    place = _Places(data)
    at = 0
    for start, end, rule in sorted(
        (it["start_offset"], it["end_offset"], rule) for it, rule in found
    ):
        if end > at:  # another rule may know the same secret
            first = begin + place.of(max(start, at))
            kind = rule.rpartition(".")[2].rpartition("/")[2]
            yield TextSpan(first, begin + place.of(end), kind)
            at = end


class _Places:
    """The places of characters in UTF-8, asked for in their order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._is_ascii = data.isascii()
        self._bytes = self._chars = 0

    def of(self, offset: int) -> int:
        """Return the number of characters before a byte."""
        if self._is_ascii:
            return offset
        between = self._data[self._bytes : offset]
        self._chars += len(between.decode(errors="replace"))
        self._bytes = offset
        return self._chars
