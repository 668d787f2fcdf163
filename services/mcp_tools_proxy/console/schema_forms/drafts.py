"""Drafts of arguments: JSON values, and texts that are not values yet."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

Path = tuple[str | int, ...]
"""Names of members and numbers of rows, from the arguments as a whole."""


class NoValue(Enum):
    """The type of ABSENT."""

    ABSENT = "absent"


ABSENT = NoValue.ABSENT
"""Stands for no value: the argument is left out."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A text that is not a value of its field; ``problem`` says why, "" for an empty row."""

    text: str
    problem: str


EMPTY = Unread("", "")


@dataclass(frozen=True, slots=True)
class DraftRows:
    """An array; ``is_sent`` also while it is empty."""

    items: list[object]
    is_sent: bool


@dataclass(frozen=True, slots=True)
class DraftMembers:
    """An object; ``is_sent`` also while it is empty."""

    values: dict[str, object]
    is_sent: bool


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value by one of several alternative schemas, the one with the number ``branch``."""

    branch: int
    value: object


def without_choice(draft: object) -> object:
    """Return a draft without what says by which alternative it was typed."""
    return draft.value if isinstance(draft, Chosen) else draft


def value_of(draft: object, *, keep_texts: bool = False) -> object:
    """Return the JSON value of a draft, ABSENT if there is none.

    With ``keep_texts`` a text that is not a value stands for itself, so that it is not lost.
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
        case list() as items:  # of JSON; a forged form adds a row to one as to any array
            return _values_of(items, keep_texts=keep_texts)
        case dict() as members:
            return {key: value_of(it, keep_texts=keep_texts) for key, it in members.items()}
        case value:
            return value


def _values_of(items: Iterable[object], *, keep_texts: bool) -> list[object]:
    values = (value_of(it, keep_texts=keep_texts) for it in items)
    return [it for it in values if it is not ABSENT]


def problems_of(draft: object) -> Iterator[str]:
    """Yield what is wrong with each text that is not a value."""
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
    """Return the rows of a draft, None if it is no array."""
    match without_choice(draft):
        case DraftRows(items, _):
            return items
        case list() as items:
            return items
    return None


def members_of(draft: object) -> Mapping[str, object] | None:
    """Return the members of a draft, None if it is no object."""
    match without_choice(draft):
        case DraftMembers(values, _):
            return values
        case dict() as values:
            return values
    return None


def add_row(draft: object, path: Path) -> Path | None:
    """Add an empty row to an array; return its path, None if there is no array."""
    rows = items_of(_at(draft, path))
    if rows is None:
        return None
    rows.append(EMPTY)
    return (*path, len(rows) - 1)


def remove_row(draft: object, path: Path) -> None:
    """Remove a row, if it is there."""
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
