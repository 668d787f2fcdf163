"""Form fields: their data, and the construction of fields without parts."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any

from mcp_tools_proxy.console.page_text import is_longer, is_plain, visible_json
from mcp_tools_proxy.console.schema_forms.drafts import (
    ABSENT,
    Letter,
    Path,
    Unread,
    name_of,
    value_of,
    without_choice,
)
from mcp_tools_proxy.console.schema_forms.schema_reader import LIMITS, NoForm, Schema
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.strict_json import whole_number


class FieldKind(StrEnum):
    """The input control of a value."""

    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    FIXED = "fixed"
    JSON = "json"
    OBJECT = "object"
    ARRAY = "array"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A selectable value; ``text`` is its JSON."""

    text: str
    label: str
    is_chosen: bool = False


@dataclass(slots=True, kw_only=True)
class FormField:
    """One value of a form; ``name`` is that of its input, or of an object's or array's marker."""

    kind: FieldKind
    name: str
    number: int = 0
    """Unique within a page."""
    label: str = ""
    """The name of a property; "" for a row and for the root."""
    row: int | None = None
    """The index of a row."""
    key: str = ""
    """The encoded path, for buttons that add and remove rows."""
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
    """Properties of an object without a field, as JSON."""
    null_name: str = ""
    """The checkbox that sends null; "" if null is not allowed."""
    is_null: bool = False
    branch_name: str = ""
    branches: Sequence[Option] = ()
    is_open: bool = True
    """Whether an optional object is expanded because it has values."""

    @property
    def has_problem(self) -> bool:
        """Whether this field or a part of it has an error."""
        return bool(self.problem) or any(part.has_problem for part in self.parts)


MAX_OPTIONS = 100
MAX_OPTIONS_CHARS = 6_000
OPTION_CHARS = 40
"""Markup around a choice."""
MAX_SHORT_CHARS = 60
"""Default, label, or limit shown in a hint."""
MAX_DESCRIPTION_CHARS = 300
MAX_DEFAULT_CHARS = 1_000
"""Default that prefills a field."""
LONG_TEXT_CHARS = 400
"""Texts that are or may be longer get several lines."""


def described(field: FormField, schema: Schema) -> FormField:
    """Add the schema's description and limits to a field."""
    description = schema.get("description")
    if isinstance(description, str) and not field.description:
        field.description = _cut(description.strip(), MAX_DESCRIPTION_CHARS)
    if not field.hint:
        field.hint = _limits_of(schema)
    return field


def text_field(
    schema: Schema, value: object, path: Path, *, is_sent: bool, has_draft: bool
) -> FormField:
    """Return the field of a text.

    Empty texts and texts with hidden characters are shown as JSON, because an empty field is
    omitted.
    """
    default = schema.get("default")
    is_given = isinstance(default, str) and len(default) <= MAX_DEFAULT_CHARS
    if value is ABSENT and not has_draft and is_sent and is_given:
        value = default
    problem = value.problem if isinstance(value, Unread) else ""
    shown = value.text if isinstance(value, Unread) else value
    if shown in (ABSENT, None):
        shown = ""
    if not isinstance(shown, str):
        return json_field(path, value, "Expected: a text")
    if value == "":
        return json_field(path, value, "An empty text, as a JSON string")
    if not is_plain(shown):
        hint = "A text with invisible characters, as a JSON string"
        return json_field(path, value, hint)
    return FormField(
        kind=FieldKind.TEXT,
        name=name_of(Letter.TEXT, path),
        text=shown,
        problem=problem,
        placeholder=_default_of(schema),
        lines=4 if _is_long(schema, shown) else 1,
    )


def number_field(
    schema: Schema,
    value: object,
    path: Path,
    *,
    is_whole: bool,
    is_sent: bool,
    has_draft: bool,
) -> FormField:
    """Return the field of a number."""
    default = schema.get("default")
    if value is ABSENT and not has_draft and is_sent and _is_number(default):
        value = default
    if is_whole:
        value = whole_number(value)
    if isinstance(value, Unread):
        text, problem = value.text, value.problem
    elif isinstance(value, int if is_whole else int | float) and not isinstance(value, bool):
        text, problem = json.dumps(value), ""
    elif value in (ABSENT, None):
        text, problem = "", ""
    else:
        return json_field(path, value, "Expected: a number")
    return FormField(
        kind=FieldKind.NUMBER,
        name=name_of(Letter.INTEGER if is_whole else Letter.NUMBER, path),
        text=text,
        problem=problem,
        placeholder=_default_of(schema),
        hint=_range_of(schema, is_whole=is_whole),
    )


def choices_of(schema: Schema) -> list[tuple[object, str]] | None:
    """Return the allowed values with labels; None if others are possible.

    Raises NoForm if there are too many.
    """
    if "const" in schema:
        return [(it, "") for it in _few([schema["const"]])]
    values = schema.get("enum")
    if isinstance(values, list) and values:
        return [(it, "") for it in _few(values)]
    if schema.get("type") == "boolean":
        return [(True, ""), (False, "")]
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches and all(map(_is_constant, branches)):
            return [(it["const"], _title_of(it)) for it in _few(branches)]
    return None


def chars_of(choices: Sequence[tuple[object, str]]) -> int:
    """Return the approximate number of characters that choices take in a page."""
    return sum(len(_json(value)) + OPTION_CHARS for value, _ in choices)


def choice_field(
    schema: Schema,
    choices: Sequence[tuple[object, str]],
    draft: object,
    path: Path,
    *,
    is_sent: bool,
    has_draft: bool,
) -> FormField:
    """Return the field of a value that is one of ``choices``."""
    value = value_of(draft, keep_texts=True)
    is_only = len(choices) == 1 and is_sent
    is_given = any(schema.get("default", ABSENT) == it for it, _ in choices)
    if value is ABSENT and not has_draft and is_sent and is_given:
        value = schema["default"]
    if value is ABSENT and is_only:
        value = choices[0][0]
    chosen = "" if value is ABSENT else _json(value)
    options = [_option(it, label, chosen) for it, label in choices]
    if chosen and not any(it.is_chosen for it in options):
        label = f"{_cut(chosen, MAX_SHORT_CHARS)} (not an allowed value)"
        options.append(Option(text=chosen, label=label, is_chosen=True))
    default = _default_of(schema)
    return FormField(
        kind=FieldKind.FIXED if is_only and len(options) == 1 else FieldKind.CHOICE,
        name=name_of(Letter.CHOICE, path),
        options=options,
        text=chosen,
        placeholder=_none_label(default, is_sent=is_sent),
    )


def json_field(path: Path, draft: object, hint: str) -> FormField:
    """Return the field of a value typed as JSON."""
    value = without_choice(draft)
    problem = ""
    if isinstance(value, Unread):
        text, problem = value.text, value.problem
        if not is_plain(text):
            text = _json(text)
    else:
        kept = value_of(value, keep_texts=True)
        text = "" if kept is ABSENT else _json(kept, indent=2)
    return FormField(
        kind=FieldKind.JSON,
        name=name_of(Letter.JSON, path),
        text=text,
        problem=problem,
        hint=hint,
        lines=min(12, max(2, text.count("\n") + 1)),
    )


def branch_labels(schemas: Sequence[Schema]) -> list[str]:
    """Return a label for each alternative; equal labels are numbered."""
    labels = [_branch_label(it) for it in schemas]
    return [
        f"{label or 'alternative'} {number + 1}" if not label or labels.count(label) > 1 else label
        for number, label in enumerate(labels)
    ]


def _branch_label(schema: Schema) -> str:
    reference = schema.get("$ref")
    named = reference.rpartition("/")[2] if isinstance(reference, str) else schema.get("type")
    found = _title_of(schema) or (named if isinstance(named, str) else "")
    return _cut(found, MAX_SHORT_CHARS)


def _option(value: object, label: str, chosen: str) -> Option:
    text = _json(value)
    shown = label or (value if isinstance(value, str) and value else text)
    return Option(text=text, label=_cut(shown, MAX_SHORT_CHARS), is_chosen=text == chosen)


def _none_label(default: str, *, is_sent: bool) -> str:
    if is_sent:
        return "Choose a value"
    return f"Not sent (default: {default})" if default else "Not sent"


def _few(values: Sequence[Any]) -> Sequence[Any]:
    if len(values) > MAX_OPTIONS:
        raise NoForm(f"has {len(values):,} choices")
    if is_longer(values, MAX_OPTIONS_CHARS):
        raise NoForm("has choices that are too long")
    return values


def _json(value: object, *, indent: int | None = None) -> str:
    try:
        return visible_json(value, indent=indent)
    except RecursionError:
        raise NoForm("has a value that is nested too deeply") from None


def _is_constant(schema: object) -> bool:
    return isinstance(schema, Mapping) and "const" in schema


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_long(schema: Schema, text: str) -> bool:
    limit = schema.get("maxLength")
    is_meant = isinstance(limit, int) and limit > LONG_TEXT_CHARS
    return is_meant or "\n" in text or len(text) > LONG_TEXT_CHARS


def _default_of(schema: Schema) -> str:
    """Return a default for display, truncated; "" if it is not a scalar."""
    default = schema.get("default")
    if isinstance(default, str):
        return _cut(default, MAX_SHORT_CHARS)
    if isinstance(default, bool | int | float):
        return _cut(_json(default), MAX_SHORT_CHARS)
    return ""


def _limits_of(schema: Schema) -> str:
    found = (
        text.format(_short(schema[key]))
        for key, text in LIMITS.items()
        if isinstance(schema.get(key), str | int | float) and not isinstance(schema[key], bool)
    )
    return ", ".join(islice(found, 4))


def _range_of(schema: Schema, *, is_whole: bool) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    kind = "integer" if is_whole else "number"
    if _is_number(low) and _is_number(high):
        return f"{kind}, {_short(low)} to {_short(high)}"
    limits = _limits_of(schema)
    return f"{kind}, {limits}" if limits else kind


def _short(limit: object) -> str:
    return _cut(str(limit), MAX_SHORT_CHARS)


def _title_of(schema: Schema) -> str:
    title = schema.get("title")
    return title if isinstance(title, str) else ""


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"
