"""Reads drafts from the fields that a browser has sent, and from JSON."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.console.schema_forms.drafts import (
    ABSENT,
    EMPTY,
    Chosen,
    DraftMembers,
    DraftRows,
    Path,
    Unread,
)
from mcp_tools_proxy.console.schema_forms.field_names import Letter, parse_name
from mcp_tools_proxy.wire.strict_json import parse_strict

MAX_LEVELS = 16
"""Levels of a path that are followed; forms have fewer."""

_INTEGER = re.compile(r"[+-]?\d{1,309}")
"""The largest float has 309 digits."""
_NUMBER = re.compile(r"[+-]?(\d{1,300}(\.\d{0,300})?|\.\d{1,300})([eE][+-]?\d{1,3})?")


@dataclass(slots=True)
class _Branch:
    """What was sent for one place, and for the places below it."""

    texts: dict[Letter, str] = field(default_factory=dict)
    below: dict[str | int, "_Branch"] = field(default_factory=dict)


def read_draft(fields: Iterable[tuple[str, str]]) -> object:
    """Return the draft that the fields of a form hold; other fields are passed over."""
    root = _Branch()
    for name, text in fields:
        parsed = parse_name(name)
        if parsed is not None and len(parsed[1]) <= MAX_LEVELS:
            letter, path = parsed
            _branch_at(root, path).texts[letter] = text.replace("\r\n", "\n")
    return _draft(root)


def read_json(text: str) -> object:
    """Return the value of a JSON text, ABSENT for a blank one, else Unread with what is wrong."""
    if not text.strip():
        return ABSENT
    try:
        return parse_strict(text.encode())
    except ValueError as error:  # a repeated key is one
        return Unread(text, f"This {error}.")


def _branch_at(root: _Branch, path: Path) -> _Branch:
    branch = root
    for step in path:
        branch = branch.below.setdefault(step, _Branch())
    return branch


def _draft(branch: _Branch) -> object:
    value = None if Letter.NULL in branch.texts else _value(branch)
    number = branch.texts.get(Letter.BRANCH, "")
    return Chosen(int(number), value) if re.fullmatch(r"\d{1,2}", number) else value


def _value(branch: _Branch) -> object:
    for letter, text in branch.texts.items():
        match letter:
            case Letter.OBJECT | Letter.SENT_OBJECT:
                return _members(branch, is_sent=letter is Letter.SENT_OBJECT)
            case Letter.ARRAY | Letter.SENT_ARRAY:
                return _rows(branch, is_sent=letter is Letter.SENT_ARRAY)
            case Letter.TEXT:
                return text or ABSENT
            case Letter.INTEGER | Letter.NUMBER:
                return _number(text, is_whole=letter is Letter.INTEGER)
            case Letter.JSON | Letter.CHOICE:
                return read_json(text)
    return ABSENT


def _members(branch: _Branch, *, is_sent: bool) -> object:
    others = read_json(branch.texts.get(Letter.OTHERS, ""))
    values = {key: _draft(it) for key, it in branch.below.items() if isinstance(key, str)}
    if others is ABSENT:
        return DraftMembers(values, is_sent)
    if isinstance(others, Mapping):
        return DraftMembers({**others, **values}, is_sent)
    if not isinstance(others, Unread):
        others = Unread(branch.texts[Letter.OTHERS], "Enter a JSON object.")
    return DraftMembers({**values, OTHERS: others}, is_sent)


OTHERS = "\0others"
"""The key in a draft of further members that cannot be read; no form has a field for it."""


def _rows(branch: _Branch, *, is_sent: bool) -> DraftRows:
    numbers = sorted(it for it in branch.below if isinstance(it, int))
    drafts = [_draft(branch.below[it]) for it in numbers]
    return DraftRows([EMPTY if it is ABSENT else it for it in drafts], is_sent)


def _number(text: str, *, is_whole: bool) -> object:
    stripped = text.strip()
    if not stripped:
        return ABSENT
    if _INTEGER.fullmatch(stripped):
        return int(stripped)
    if is_whole:
        return Unread(text, "Enter a whole number.")
    number = float(stripped) if _NUMBER.fullmatch(stripped) else math.nan
    return number if math.isfinite(number) else Unread(text, "Enter a number, such as 2.5.")
