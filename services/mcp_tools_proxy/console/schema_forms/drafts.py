"""Drafts of arguments: JSON values, and texts that are not valid values yet.

A field's name is a letter for the kind of input, and the encoded path of the value. Property names
of a schema can therefore not collide with other fields of the page.
"""

import math
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum, StrEnum

from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.strict_json import parse_strict

Path = tuple[str | int, ...]
"""Names of properties and indexes of rows, from the root of the arguments."""


class NoValue(Enum):
    """The type of ABSENT."""

    ABSENT = "absent"


ABSENT = NoValue.ABSENT
"""Marks an argument that is omitted."""

OTHERS = "\0others"
"""Key of additional properties that could not be parsed; no form has a field with this name."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A text that is not a valid value; ``problem`` is the error, "" for an empty row."""

    text: str
    problem: str


EMPTY = Unread("", "")


@dataclass(frozen=True, slots=True)
class DraftRows:
    """An array; with ``is_sent`` it is also sent if empty."""

    items: list[object]
    is_sent: bool


@dataclass(frozen=True, slots=True)
class DraftMembers:
    """An object; with ``is_sent`` it is also sent if empty."""

    values: dict[str, object]
    is_sent: bool


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value entered for the alternative schema with index ``branch``."""

    branch: int
    value: object


def without_choice(draft: object) -> object:
    """Return a draft without its alternative's index."""
    return draft.value if isinstance(draft, Chosen) else draft


def value_of(draft: object, *, keep_texts: bool = False) -> object:
    """Return the JSON value of a draft, or ABSENT.

    With ``keep_texts`` a text that is not a valid value is returned as is instead of being dropped.
    """
    match without_choice(draft):
        case Unread(text, _):
            return text if keep_texts and text else ABSENT
        case DraftRows(items, is_sent):
            found = _values_of(items, keep_texts=keep_texts)
            return found if found or is_sent else ABSENT
        case DraftMembers(members, is_sent):
            pairs = {key: value_of(it, keep_texts=keep_texts) for key, it in members.items()}
            kept = {key: value for key, value in pairs.items() if value is not ABSENT}
            return kept if kept or is_sent else ABSENT
        case list() as items:  # a JSON array; a forged form can add rows
            return _values_of(items, keep_texts=keep_texts)
        case dict() as members:
            return {key: value_of(it, keep_texts=keep_texts) for key, it in members.items()}
        case value:
            return value


def _values_of(items: Iterable[object], *, keep_texts: bool) -> list[object]:
    values = (value_of(it, keep_texts=keep_texts) for it in items)
    return [it for it in values if it is not ABSENT]


def problems_of(draft: object) -> Iterator[str]:
    """Yield the error of each text that is not a valid value."""
    match without_choice(draft):
        case Unread(_, problem) if problem:
            yield problem
        case DraftRows(items, _):
            for item in items:
                yield from problems_of(item)
        case DraftMembers(values, _):
            for value in values.values():
                yield from problems_of(value)


def items_of(draft: object) -> list[object] | None:
    """Return the rows of a draft, None if it is not an array."""
    match without_choice(draft):
        case DraftRows(items, _):
            return items
        case list() as items:
            return items
    return None


def members_of(draft: object) -> Mapping[str, object] | None:
    """Return the properties of a draft, None if it is not an object."""
    match without_choice(draft):
        case DraftMembers(values, _):
            return values
        case dict() as values:
            return values
    return None


def add_row(draft: object, path: Path) -> Path | None:
    """Append an empty row to an array; return its path, or None."""
    rows = items_of(_at(draft, path))
    if rows is None:
        return None
    rows.append(EMPTY)
    return (*path, len(rows) - 1)


def remove_row(draft: object, path: Path) -> None:
    """Remove a row if it exists."""
    *of_array, number = path or ("",)
    rows = items_of(_at(draft, tuple(of_array)))
    if rows is not None and isinstance(number, int) and number < len(rows):
        del rows[number]


def _at(draft: object, path: Path) -> object:
    for step in path:
        if isinstance(step, int):
            rows = items_of(draft) or []
            draft = rows[step] if step < len(rows) else ABSENT
        else:
            draft = (members_of(draft) or {}).get(step, ABSENT)
    return draft


MAX_LEVELS = 16
"""Depth limit of paths; forms have fewer levels."""

MAX_NAME_CHARS = 100

MAX_PATH_CHARS = 320
"""Maximum length of a property name and of an encoded path, to limit the page's size."""

MAX_ROW = 1_000

_NAME = re.compile(r"([A-Za-z])\.([A-Za-z0-9_-]*)")


class Letter(StrEnum):
    """The kind of a field; kinds in capitals are also sent if empty."""

    TEXT = "s"
    INTEGER = "i"
    NUMBER = "n"
    CHOICE = "e"
    """One of several values, as JSON."""
    JSON = "j"
    OTHERS = "x"
    """Properties without a field, as a JSON object."""
    OBJECT = "o"
    SENT_OBJECT = "O"
    ARRAY = "a"
    SENT_ARRAY = "A"
    NULL = "z"
    """A checkbox that sends null."""
    BRANCH = "c"
    """The index of an alternative."""


_LETTERS = frozenset(it.value for it in Letter)

_INTEGER = re.compile(r"[+-]?\d{1,309}")
"""The largest float has 309 digits."""

_NUMBER = re.compile(r"[+-]?(\d{1,300}(\.\d{0,300})?|\.\d{1,300})([eE][+-]?\d{1,3})?")


@dataclass(slots=True)
class _Branch:
    """Fields sent for a path and for the paths below it."""

    texts: dict[Letter, str] = field(default_factory=dict)
    below: dict[str | int, "_Branch"] = field(default_factory=dict)


def read_draft(fields: Iterable[tuple[str, str]]) -> object:
    """Return the draft in the fields of a form; unrelated fields are ignored."""
    root = _Branch()
    for name, text in fields:
        parsed = parse_name(name)
        if parsed is not None and len(parsed[1]) <= MAX_LEVELS:
            letter, path = parsed
            _branch_at(root, path).texts[letter] = text.replace("\r\n", "\n")
    return _draft(root)


def read_json(text: str) -> object:
    """Return the value of a JSON text; ABSENT if it is blank, Unread if it is invalid."""
    if not text.strip():
        return ABSENT
    try:
        return parse_strict(text.encode())
    except ValueError as error:  # including a repeated key
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


def key_of(path: Path) -> str:
    """Encode a path in letters, digits, ``-`` and ``_``."""
    return urlsafe_b64encode(to_json(path)).decode().rstrip("=") if path else ""


def path_of(key: str) -> Path | None:
    """Return the path of a key; None if it is invalid."""
    if not key:
        return ()
    try:
        path = from_json(urlsafe_b64decode(key + "=" * (-len(key) % 4)))
    except ValueError:
        return None
    is_path = isinstance(path, list) and all(map(_is_step, path))
    return tuple(path) if is_path else None


def name_of(letter: Letter, path: Path) -> str:
    """Return the name of a field."""
    return f"{letter}.{key_of(path)}"


def parse_name(name: str) -> tuple[Letter, Path] | None:
    """Return the kind and path of a field; None for a field of another part of the page."""
    found = _NAME.fullmatch(name)
    path = None if found is None else path_of(found[2])
    if found is None or path is None or found[1] not in _LETTERS:
        return None
    return Letter(found[1]), path


def _is_step(step: object) -> bool:
    if isinstance(step, int):
        return not isinstance(step, bool) and 0 <= step < MAX_ROW
    return isinstance(step, str)
