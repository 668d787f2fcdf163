"""The blocklist: keywords that no argument of a call may hold (T-06)."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from mcp_tools_proxy.wire.text import normalize

IDENTIFIER_ARGUMENTS = frozenset(
    {"tenant_id", "user_id", "doc_id", "section_id", "anchor_chunk_id"}
)
"""Arguments that are identifiers (contract §1); they are not searched."""

LONG_CHARS = 20_000
"""Longer arguments are searched in a thread. NFKC can expand one character to 18."""

VALUE_CHARS = 10
"""Cost of one value, however short, in characters of text."""

Path = tuple[str | int, ...]
"""Where a value stands in the arguments: keys, and places in lists."""


class Blocked(NamedTuple):
    """The first keyword found; ``path`` is where."""

    path: Path
    keyword: str


class Blocklist:
    """Finds keywords as whole words, after NFKC and case folding; off without keywords."""

    def __init__(self, keywords: Iterable[str]) -> None:
        words = sorted({_fold(word) for word in keywords}, key=len, reverse=True)
        alternatives = "|".join(re.escape(word) for word in words if word)
        self._pattern = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)") if alternatives else None
        self.is_on = bool(alternatives)

    def is_long(self, arguments: Mapping[str, object], filled_in: Collection[Path] = ()) -> bool:
        """Return whether searching ``arguments`` may take more than a few milliseconds."""
        if self._pattern is None:
            return False
        chars = 0
        for _, text in self._texts(arguments, filled_in):
            chars += len(text) + VALUE_CHARS
            if chars > LONG_CHARS:
                return True
        return False

    def find(
        self, arguments: Mapping[str, object], filled_in: Collection[Path] = ()
    ) -> Blocked | None:
        """Return the first keyword found in any string of ``arguments``, at any depth.

        What stands at a path of ``filled_in`` is not searched: it is an operator's, or an
        identifier, and its keyword would be in the log.
        """
        if self._pattern is None:
            return None
        for path, text in self._texts(arguments, filled_in):
            if text and (found := self._pattern.search(_fold(text))):
                return Blocked(path, found[0])
        return None

    def _texts(
        self, arguments: Mapping[str, object], filled_in: Collection[Path]
    ) -> Iterator[tuple[Path, str]]:
        for name, value in arguments.items():
            if name not in IDENTIFIER_ARGUMENTS:
                yield from _strings(value, (name,), filled_in)


def _fold(text: str) -> str:
    return normalize("NFKC", text).casefold()


def _strings(value: object, path: Path, left_out: Collection[Path]) -> Iterator[tuple[Path, str]]:
    """Yield the path and text of every value; the text of anything but a string is empty."""
    if path in left_out:
        return
    yield path, value if isinstance(value, str) else ""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(item, (*path, key), left_out)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _strings(item, (*path, place), left_out)


def declared_path(path: Path, schema: Mapping[str, object]) -> str:
    """Return ``path`` as far as a tool's input schema declares it: ``filter.names[2]``.

    Keys that the schema does not declare are the caller's data, which must not be logged. The
    result is empty when the schema does not declare the first key.
    """
    spelt = ""
    for part in path:
        parts = schema.get("items" if isinstance(part, int) else "properties")
        if isinstance(part, int):
            declared, spelt = parts, f"{spelt}[{part}]"
        elif isinstance(parts, Mapping) and part in parts:
            declared, spelt = parts[part], f"{spelt}.{part}" if spelt else part
        else:
            break
        schema = declared if isinstance(declared, Mapping) else {}
    return spelt
