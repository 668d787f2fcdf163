"""The blocklist: forbidden keywords in the arguments of calls (T-06)."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple
from unicodedata import combining

from mcp_tools_proxy.wire.lookalikes import letters_like, mixes_scripts
from mcp_tools_proxy.wire.text import HIDDEN_IN_WORDS, normalize

IDENTIFIER_ARGUMENTS = frozenset(
    {"tenant_id", "user_id", "doc_id", "section_id", "anchor_chunk_id"}
)
"""Arguments that are identifiers (contract §1); they are not searched."""

LONG_CHARS = 20_000
"""Cost above which arguments are searched in a thread. NFKC can expand one character to 18."""

PART_CHARS = 100_000
"""Characters per search: 6 million (1 MiB before NFKC) took 0.3 s, during which no other thread
ran."""

OTHER_SCRIPT_CHARS = 5
"""Cost of a character of a non-ASCII text."""

VALUE_CHARS = 10
"""Cost of one value of any length, in characters of text."""

_GAP = "\0"
"""Replaces hidden characters. It is not a word character, so it also ends a word."""

_GAP_BEFORE = re.compile(f"{_GAP}([^\x00-\x7f])")

_WORD = re.compile(r"\w+")

Path = tuple[str | int, ...]
"""A path in the arguments: keys and list indexes."""


class Blocked(NamedTuple):
    """The first keyword found, and the path of its text."""

    path: Path
    keyword: str


class Blocklist:
    """Finds keywords as whole words, after NFKC and case folding; off without keywords.

    Hidden characters in and around a word are ignored. In a word of mixed scripts, lookalike
    letters are equal. The keywords form one pattern with shared prefixes: 1,000 of them, tried one
    by one, took 0.5 s for 60 kB.
    """

    def __init__(self, keywords: Iterable[str]) -> None:
        words = {_fold(HIDDEN_IN_WORDS.sub("", word)) for word in keywords} - {""}
        tree = _tree_of(sorted(words, key=len, reverse=True))
        self._words = tuple(_words_of(tree))
        self._most_chars = 2 * max(map(len, self._words), default=0)  # with a gap at each position
        self._pattern = _pattern_of(tree, re.escape)
        self._lookalikes = _pattern_of(tree, _class_of)
        self.is_on = bool(words)

    def is_long(self, arguments: Mapping[str, object], filled_in: Collection[Path] = ()) -> bool:
        """Return whether a search in ``arguments`` can take more than a few milliseconds."""
        if not self.is_on:
            return False
        chars = 0
        for _, text in self._texts(arguments, filled_in):
            chars += len(text) * (1 if text.isascii() else OTHER_SCRIPT_CHARS) + VALUE_CHARS
            if chars > LONG_CHARS:
                return True
        return False

    def find(
        self, arguments: Mapping[str, object], filled_in: Collection[Path] = ()
    ) -> Blocked | None:
        """Return the first keyword found in any string of ``arguments``, at any depth.

        Values at the paths ``filled_in`` are skipped: they are an operator's or identifiers, and
        the log would show a keyword from them.
        """
        if not self.is_on:
            return None
        for path, text in self._texts(arguments, filled_in):
            if text and (keyword := self._keyword_in(text)) is not None:
                return Blocked(path, keyword)
        return None

    def _keyword_in(self, text: str) -> str | None:
        folded = _fold(text if text.isascii() and text.isprintable() else _with_gaps(text))
        for found in self._matches(self._pattern, folded):
            return self._word_of(found)
        if folded.isascii():
            return None
        lookalikes = self._matches(self._lookalikes, folded)
        return next((it for found in lookalikes if (it := self._lookalike_of(found))), None)

    def _matches(self, pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
        """Yield the matches in a text, part by part, because a search blocks all other threads.

        Each part overlaps the next by the longest word, so that words are not split.
        """
        begin = 0
        while begin < len(text):
            behind = begin + PART_CHARS
            for found in pattern.finditer(text, begin, behind + self._most_chars):
                if found.start() >= behind:
                    break
                yield found
                begin = found.end()
            begin = max(begin, behind)

    def _lookalike_of(self, found: re.Match[str]) -> str | None:
        word = self._word_of(found)
        pairs = zip(_WORD.findall(found[0].replace(_GAP, "")), _WORD.findall(word), strict=True)
        return word if all(one == other or mixes_scripts(one) for one, other in pairs) else None

    def _word_of(self, found: re.Match[str]) -> str:
        return self._words[(found.lastindex or 1) - 1]

    def _texts(
        self, arguments: Mapping[str, object], filled_in: Collection[Path]
    ) -> Iterator[tuple[Path, str]]:
        for name, value in arguments.items():
            if name not in IDENTIFIER_ARGUMENTS:
                yield from _strings(value, (name,), filled_in)


def _fold(text: str) -> str:
    normal = normalize("NFKC", text)
    parts = (normal[it : it + PART_CHARS] for it in range(0, len(normal), PART_CHARS))
    return "".join(part.casefold() for part in parts)


def _with_gaps(text: str) -> str:
    """Return ``text`` with gaps in place of hidden characters.

    Hidden characters between a letter and its combining mark are removed, so that both stay one
    character.
    """
    text = HIDDEN_IN_WORDS.sub(_GAP, text)
    return _GAP_BEFORE.sub(lambda it: it[0].lstrip(_GAP) if combining(it[1]) else it[0], text)


class _Tree(dict[str, "_Tree"]):
    """The keywords with a common prefix, by their next letter."""

    word: str | None = None


def _tree_of(words: Iterable[str]) -> _Tree:
    root = _Tree()
    for word in words:
        node = root
        for letter in word:
            node = node.setdefault(letter, _Tree())
        node.word = word
    return root


def _words_of(tree: _Tree) -> Iterator[str]:
    """Yield the keywords in the order of their groups in ``_pattern_of``."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node.word is not None and node:
            end = _Tree()
            end.word, inner = node.word, _Tree(node)
            waiting += (end, inner)
        elif node.word is not None:
            yield node.word
        else:
            waiting += reversed(node.values())


def _pattern_of(tree: _Tree, letter: Callable[[str], str]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){_choice_of(tree, letter)}")


def _choice_of(tree: _Tree, letter: Callable[[str], str]) -> str:
    """Return the pattern of a tree: one alternative for each next letter."""
    choices = [letter(first) + _rest_of(rest, letter) for first, rest in tree.items()]
    return choices[0] if len(choices) == 1 else f"(?:{'|'.join(choices)})"


def _rest_of(tree: _Tree, letter: Callable[[str], str]) -> str:
    begin = ""
    while len(tree) == 1 and tree.word is None:
        ((next_letter, tree),) = tree.items()
        begin += f"{_GAP}?{letter(next_letter)}"
    end = r"()(?!\w)"  # the empty group identifies the word
    if not tree:
        return begin + end
    rest = f"{_GAP}?{_choice_of(tree, letter)}"
    return begin + (rest if tree.word is None else f"(?:{rest}|{end})")


def _class_of(letter: str) -> str:
    return f"[{re.escape(letters_like(letter))}]"


def _strings(value: object, path: Path, left_out: Collection[Path]) -> Iterator[tuple[Path, str]]:
    """Yield path and text of all values; other values than strings have an empty text."""
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
    """Return the part of ``path`` that a tool's input schema declares: ``filter.names[2]``.

    Undeclared keys are the caller's data, which must not be logged. The result can be empty.
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
