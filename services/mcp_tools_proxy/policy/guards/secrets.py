"""Known formats of secrets, found with Kingfisher's rules in linear time.

The library is an extra of 50 to 70 MB, imported only if the guard is on. Its functions to validate
and revoke secrets at services are never used.
"""

import re
from collections.abc import Collection, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING

from mcp_tools_proxy.policy.guards.texts import Texts, TextSpan

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

EXTRA = "secrets"


def is_installed() -> bool:
    """Return whether the library is installed."""
    return find_spec("kingfisher_sdk") is not None


@cache
def scanner() -> "Scanner":
    """Return the compiled rules. The first call takes 4 s of CPU: call it in a thread."""
    from kingfisher_sdk import Rules, Scanner  # noqa: PLC0415 - an extra

    return Scanner(Rules(confidence="medium", cache=False), base64=False)


MAX_SCANS = 8
"""Maximum number of scans of a value whose secrets seem to extend into the next text."""

_START_OF_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=(?:\s|\\[nr]){1,4}[A-Za-z0-9+/=]{32})"
)
_END_OF_KEY = "-----END "

WINDOW = 64 * 1024
"""Characters of one scan, which cannot be interrupted; scanning ends after ``MAX_SECRETS``."""

OVERLAP = 32 * 1024
"""Maximum length of a secret across the end of a window."""

MAX_SECRETS = 1_000
"""Each finding takes up to 0.3 ms: 1 MiB of key headers took 4 s."""

_PLACEHOLDER = re.compile(
    rb"(?i)[-_. <>]*+(?:(?:your|my|some|the|this|here|with|insert|replace|example|placeholder|value"
    rb"|password|passwd|pass|pwd|secret|token|api|key|access|auth)[-_. <>]*+)++"
)
"""A placeholder in documentation, such as ``your-token-here``.

Of 2,400 README files on npm, 13 had findings, 8 of them only such placeholders.
"""

UNCLEAR = "too_many"
"""The kind of finding for a value that needs more scans."""


def find_secrets(texts: Texts, _hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find at most ``MAX_SECRETS`` secrets; the kind is the rule's, such as ``github-pat``.

    Includes truncated keys, whose end no rule matches.
    """
    for number, span in enumerate(chain(_secrets(texts), _keys_without_end(texts))):
        if number == MAX_SECRETS:
            yield TextSpan(span.start, len(texts.joined), UNCLEAR)
            return
        yield span


def _secrets(texts: Texts) -> Iterator[TextSpan]:
    """Yield the rules' findings in each text.

    The start of a key in one text and the end of another in the next match as one key. So a secret
    ends with its text, and the rest is scanned again.
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


def _keys_without_end(texts: Texts) -> Iterator[TextSpan]:
    """Find private keys that are truncated by a page's end or a limit."""
    joined = texts.joined
    end = last = 0
    for match in _START_OF_KEY.finditer(joined):
        if match.start() >= end:
            end = texts.end_of_text(match.start())
            last = joined.rfind(_END_OF_KEY, match.start(), end)
        if match.start() > last:
            yield TextSpan(match.start(), end, "private-key")
            last = end


def _scan(joined: str, begin: int) -> Iterator[TextSpan]:
    """Yield the secrets from a position on, in order, without overlaps."""
    at = begin
    for start in range(begin, len(joined), WINDOW):
        for span in _scan_window(joined[start : start + WINDOW + OVERLAP]):
            first, last = start + span.start, start + span.end
            if first >= start + WINDOW:  # the next window contains all of it
                break
            if last > at:  # another rule, or the previous window, can find the same secret
                yield TextSpan(max(first, at), last, span.kind)
                at = last


def _scan_window(text: str) -> Iterator[TextSpan]:
    """Yield the rules' findings in a text, in order."""
    data = text.encode(errors="replace")
    found = [(it.location, it.rule_id) for it in scanner().scan(data) if it.visible]
    place = _Places(data)
    for start, end, rule in sorted(
        (it["start_offset"], it["end_offset"], rule) for it, rule in found
    ):
        if _PLACEHOLDER.fullmatch(data, start, end):
            continue
        kind = rule.rpartition(".")[2].rpartition("/")[2]
        first = place.of(start)
        yield TextSpan(first, first + len(data[start:end].decode(errors="replace")), kind)


class _Places:
    """Converts byte offsets in UTF-8 to characters, in increasing order."""

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
