"""Differences of two definitions, word by word, with hidden characters escaped."""

import json
import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from enum import StrEnum
from typing import NamedTuple

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.wire.text import printable

MAX_WORDS = 1_000
"""Words of a text that are compared individually: the time grows with the product of both
lengths."""

BRIEF = 3
BRIEF_CHARS = 200
"""Places in a short difference, and characters of each text in it."""

_WORDS = re.compile(r"\s+|[^\s]+")


class Edit(StrEnum):
    """Kind of change of a piece of text."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


class Piece(NamedTuple):
    """Some words of a text, and their change."""

    edit: Edit
    text: str


class FieldDifference(NamedTuple):
    """A place such as ``inputSchema.properties.query.description``, and its words."""

    place: str
    pieces: tuple[Piece, ...]


def differences(before: JsonObject | None, after: JsonObject | None) -> tuple[FieldDifference, ...]:
    """Return all places that differ between two definitions; None is empty."""
    old, new = dict(_leaves(before or {}, "")), dict(_leaves(after or {}, ""))
    return tuple(
        FieldDifference(printable(place), _pieces(old.get(place, ""), new.get(place, "")))
        for place in dict.fromkeys((*old, *new))
        if old.get(place) != new.get(place)
    )


def marked(pieces: tuple[Piece, ...]) -> str:
    """Return the pieces as one line: ``Find [-notes-]{+everything+}``."""
    marks = {Edit.SAME: "{}", Edit.REMOVED: "[-{}-]", Edit.ADDED: "{{+{}+}}"}
    return "".join(marks[edit].format(text) for edit, text in pieces)


def brief_differences(before: JsonObject, after: JsonObject) -> list[str]:
    """Return the first differing places as short lines, in linear time."""
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    places = [it for it in dict.fromkeys((*old, *new)) if old.get(it) != new.get(it)]
    return [f"{printable(it)}: {_brief(old.get(it, ''), new.get(it, ''))}" for it in places[:BRIEF]]


def _brief(before: str, after: str) -> str:
    edits = _ends(_WORDS.findall(before), _WORDS.findall(after))
    changed = ((edit, words) for edit, words in edits if edit is not Edit.SAME)
    return "".join(marked((Piece(it.edit, it.text[:BRIEF_CHARS]),)) for it in _joined(changed))


def _leaves(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Yield each innermost value of a definition, as text, with its place."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, f"{place}[{index}]")
    elif place:
        yield place, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pieces(before: str, after: str) -> tuple[Piece, ...]:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > MAX_WORDS:
        return tuple(_joined(_ends(old, new)))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return tuple(_joined(_edits(matcher, old, new)))


def _edits(
    matcher: SequenceMatcher[str], old: list[str], new: list[str]
) -> Iterator[tuple[Edit, list[str]]]:
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            yield Edit.SAME, old[i1:i2]
        else:
            yield Edit.REMOVED, old[i1:i2]
            yield Edit.ADDED, new[j1:j2]


def _ends(old: list[str], new: list[str]) -> Iterator[tuple[Edit, list[str]]]:
    """Yield the common start and end of long texts, and the rest as changed."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    rest = shorter - head
    tail = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
    yield Edit.SAME, old[:head]
    yield Edit.REMOVED, old[head : len(old) - tail]
    yield Edit.ADDED, new[head : len(new) - tail]
    yield Edit.SAME, old[len(old) - tail :]


def _joined(edits: Iterator[tuple[Edit, list[str]]]) -> Iterator[Piece]:
    for edit, words in edits:
        if words:
            yield Piece(edit, printable("".join(words)))
