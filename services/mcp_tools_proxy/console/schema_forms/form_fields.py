"""What a form shows of one value: its field, or the fields that it is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class FieldKind(StrEnum):
    """How a value is typed."""

    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    FIXED = "fixed"
    JSON = "json"
    OBJECT = "object"
    ARRAY = "array"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One value to choose; ``text`` is its JSON."""

    text: str
    label: str
    is_chosen: bool = False


@dataclass(slots=True, kw_only=True)
class FormField:
    """One value of a form; ``name`` is that of its field, or of what marks an object or array."""

    kind: FieldKind
    name: str
    number: int
    """Tells the fields of a page apart."""
    label: str
    """The name of a member, "" for a row and for the arguments as a whole."""
    row: int | None = None
    """The number of a row, from 0."""
    key: str = ""
    """The place of the value, for the buttons that add and remove rows."""
    description: str = ""
    hint: str = ""
    problem: str = ""
    text: str = ""
    placeholder: str = ""
    lines: int = 1
    is_required: bool = False
    has_focus: bool = False
    options: Sequence[Option] = ()
    parts: "Sequence[FormField]" = ()
    others: "FormField | None" = None
    """DraftMembers of an object that have no field of their own, as JSON."""
    null_name: str = ""
    """The box that is ticked to send null; "" where null is no value."""
    is_null: bool = False
    branch_name: str = ""
    branches: Sequence[Option] = ()
    is_open: bool = True
    """Whether an optional object is unfolded: it has values."""

    @property
    def has_problem(self) -> bool:
        """Whether anything is wrong with it, or with a part of it."""
        return bool(self.problem) or any(part.has_problem for part in self.parts)
