"""Keywords that no argument may hold (T-06)."""

import re
from collections.abc import Iterable, Iterator, Mapping

from mcp_tools_proxy.policy.unicode import normalize

IDENTIFIER_ARGUMENTS = frozenset(
    {"tenant_id", "user_id", "doc_id", "section_id", "anchor_chunk_id"}
)
"""Arguments that name things and are not searched: the identifiers of contract §1."""


LONG_CHARS = 20_000
"""NFKC makes up to 18 characters of one."""


class Blocklist:
    """Finds keywords as whole words, after NFKC and casefold; no keywords means off."""

    def __init__(self, keywords: Iterable[str]) -> None:
        words = sorted({_fold(word) for word in keywords}, key=len, reverse=True)
        alternatives = "|".join(re.escape(word) for word in words if word)
        self._pattern = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)") if alternatives else None

    def is_long(self, arguments: Mapping[str, object]) -> bool:
        """Tell whether searching ``arguments`` may take more than some milliseconds."""
        return sum(len(text) for text in self._texts(arguments)) > LONG_CHARS

    def blocks(self, arguments: Mapping[str, object]) -> bool:
        """Tell whether a string in ``arguments``, however nested, holds a keyword."""
        pattern = self._pattern
        return pattern is not None and any(
            pattern.search(_fold(text)) for text in self._texts(arguments)
        )

    def _texts(self, arguments: Mapping[str, object]) -> Iterator[str]:
        for name, value in arguments.items():
            if name not in IDENTIFIER_ARGUMENTS:
                yield from _strings(value)


def _fold(text: str) -> str:
    return normalize("NFKC", text).casefold()


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
