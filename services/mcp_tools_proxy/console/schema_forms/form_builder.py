"""Builds the form of a schema, filled with a draft."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from mcp_tools_proxy.console.schema_forms.drafts import (
    ABSENT,
    EMPTY,
    MAX_NAME_CHARS,
    MAX_PATH_CHARS,
    OTHERS,
    Chosen,
    DraftMembers,
    Letter,
    Path,
    Unread,
    items_of,
    key_of,
    members_of,
    name_of,
    value_of,
    without_choice,
)
from mcp_tools_proxy.console.schema_forms.form_fields import (
    FieldKind,
    FormField,
    Option,
    branch_labels,
    chars_of,
    choice_field,
    choices_of,
    described,
    json_field,
    number_field,
    text_field,
)
from mcp_tools_proxy.console.schema_forms.schema_reader import (
    NoForm,
    Schema,
    SchemaReader,
    alternatives_of,
    properties_of,
    required_of,
    type_of,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MAX_FIELDS = 80
"""Fields per page; larger parts are typed as JSON."""
MAX_CHOICE_CHARS = 20_000
"""Characters of all choices of a page, including markup."""
MISSING = "Enter a value. To send an empty text, edit the arguments as JSON."
"""Error of a required field that is empty."""
MAX_LEVEL = 5
MAX_TURNS = 8
MAX_ROWS = 40


_TAKE_NULL = (FieldKind.JSON, FieldKind.CHOICE, FieldKind.FIXED)

_JSON_TYPES: Mapping[type, Sequence[str]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    list: ("array",),
    dict: ("object",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The position of a value; ``is_sent`` if it and all its parents are always sent."""

    path: Path = ()
    is_sent: bool = True
    is_required: bool = False
    definitions: frozenset[str] = frozenset()
    turns: int = 0
    """Number of alternatives chosen above this value."""

    @property
    def label(self) -> str:
        """The name of a property, or ""."""
        return str(self.path[-1]) if self.path and isinstance(self.path[-1], str) else ""


def build_form(
    schema: object,
    draft: object = ABSENT,
    *,
    focus: Path | None = None,
    problems: Mapping[str, str] | None = None,
    needs_values: bool = False,
) -> FormField:
    """Return the form of the arguments that ``schema`` describes, filled with ``draft``.

    Without a draft, required values start with their defaults. ``focus`` is the path of the field
    to focus; ``problems`` are errors by argument. With ``needs_values``, missing required values
    are errors. Parts of the schema that cannot be shown as fields are typed as JSON.
    """
    root = schema if isinstance(schema, Mapping) else {}
    builder = _FormBuilder(
        root, focus=focus, has_draft=draft is not ABSENT, needs_values=needs_values
    )
    form = builder.build({"type": "object", **root}, draft, Place(definitions=frozenset({"#"})))
    for part in form.parts:
        part.problem = part.problem or (problems or {}).get(part.label, "")
    return form


class _FormBuilder:
    def __init__(
        self, root: Schema, *, focus: Path | None, has_draft: bool, needs_values: bool
    ) -> None:
        self._reader = SchemaReader(root)
        self._focus = focus
        self._has_draft = has_draft
        self._needs_values = needs_values
        self._left = MAX_FIELDS
        self._choice_chars_left = MAX_CHOICE_CHARS
        self._number = 0

    def build(self, schema: object, draft: object, place: Place) -> FormField:
        try:
            built = self._built(schema, draft, place)
        except NoForm as error:
            built = json_field(place.path, draft, f"Shown as JSON because it {error}.")
            described(built, schema if isinstance(schema, Mapping) else {})
        if without_choice(draft) is None and not (built.null_name or built.kind in _TAKE_NULL):
            built = json_field(place.path, None, "Null is not an allowed value.")
        self._number += 1
        built.number = self._number
        built.label = built.label or place.label
        built.key = key_of(place.path)
        built.is_required = place.is_required
        if self._needs_values and place.is_required and place.is_sent and _is_missing(built, draft):
            built.problem = built.problem or MISSING
        built.has_focus = place.path == self._focus
        if place.path and isinstance(place.path[-1], int):
            built.row = place.path[-1]
        return built

    def _built(self, schema: object, draft: object, place: Place) -> FormField:
        if place.turns > MAX_TURNS:
            raise NoForm("has alternatives within alternatives")
        resolved = self._reader.resolve(schema, place.definitions)
        place = replace(place, definitions=resolved.places, turns=place.turns + 1)
        choices = choices_of(resolved.schema)
        if choices is not None:
            self._reserve_choices(choices)
            field = choice_field(resolved.schema, choices, draft, place.path, **self._given(place))
            return described(field, resolved.schema)
        alternatives = alternatives_of(resolved.schema)
        if len(alternatives.schemas) > 1:
            field = self._alternative(alternatives.schemas, draft, place)
        elif alternatives.schemas[0] is resolved.schema:
            field = self._plain(resolved.schema, draft, place)
        else:
            field = self._built(alternatives.schemas[0], draft, place)
        if alternatives.has_null and field.kind not in (FieldKind.JSON, FieldKind.CHOICE):
            field.null_name = name_of(Letter.NULL, place.path)
            field.is_null = without_choice(draft) is None
        if alternatives.has_null and field.kind is FieldKind.CHOICE:
            is_null = without_choice(draft) is None
            field.options = [*field.options, Option(text="null", label="null", is_chosen=is_null)]
        return described(field, resolved.schema)

    def _alternative(self, schemas: Sequence[Schema], draft: object, place: Place) -> FormField:
        """Return the field of the chosen alternative, otherwise of the first that fits."""
        branch = draft.branch if isinstance(draft, Chosen) else self._fitting(schemas, draft)
        branch = min(branch, len(schemas) - 1)
        if isinstance(draft, Chosen):
            draft = self._converted(schemas[branch], draft.value)
        field = self._built(schemas[branch], draft, place)
        if field.branch_name:
            raise NoForm("has alternatives within alternatives")
        field.branch_name = name_of(Letter.BRANCH, place.path)
        field.branches = [
            Option(text=str(number), label=label, is_chosen=number == branch)
            for number, label in enumerate(branch_labels(schemas))
        ]
        return field

    def _converted(self, schema: Schema, value: object) -> object:
        """Convert a value typed for another alternative back to text."""
        wanted = type_of(self._reader.resolve(schema, frozenset()).schema)
        if isinstance(value, str) and wanted in ("integer", "number"):
            return Unread(value, "")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return str(value) if is_number and wanted == "string" else value

    def _fitting(self, schemas: Sequence[Schema], draft: object) -> int:
        """Return the index of the first alternative with the type of a value."""
        types = _JSON_TYPES.get(type(value_of(draft)), ())
        for number, schema in enumerate(schemas):
            with suppress(NoForm):
                if type_of(self._reader.resolve(schema, frozenset()).schema) in types:
                    return number
        return 0

    def _plain(self, schema: Schema, draft: object, place: Place) -> FormField:
        value = without_choice(draft)
        match type_of(schema):
            case "object":
                return self._object(schema, value, place)
            case "array":
                return self._array(schema, value, place)
            case "string":
                return text_field(schema, value, place.path, **self._given(place))
            case "integer" | "number" as named:
                is_whole = named == "integer"
                given = self._given(place)
                return number_field(schema, value, place.path, is_whole=is_whole, **given)
        return json_field(place.path, value, "Any JSON value")

    def _given(self, place: Place) -> dict[str, bool]:
        return {"is_sent": place.is_sent, "has_draft": self._has_draft}

    def _object(self, schema: Schema, value: object, place: Place) -> FormField:
        members = members_of(value)
        if members is None and value not in (ABSENT, None, EMPTY):
            return json_field(place.path, value, "A JSON object.")
        properties, members = properties_of(schema), members or {}
        if not properties and place.path:
            return json_field(place.path, value, "A JSON object.")
        self._check_level(place)
        self._reserve(properties)
        _check_names(properties, place.path)
        required = required_of(schema)
        parts = [
            self.build(
                part,
                members.get(name, ABSENT),
                Place(
                    path=(*place.path, name),
                    is_sent=place.is_sent and name in required,
                    is_required=name in required,
                    definitions=place.definitions,
                ),
            )
            for name, part in properties.items()
        ]
        letter = Letter.SENT_OBJECT if place.is_sent else Letter.OBJECT
        return FormField(
            kind=FieldKind.OBJECT,
            name=name_of(letter, place.path),
            parts=parts,
            others=self._others(schema, members, place.path),
            is_open=place.is_sent or value_of(value, keep_texts=True) is not ABSENT,
        )

    def _others(
        self, schema: Schema, members: Mapping[str, object], path: Path
    ) -> FormField | None:
        """Return the field of additional properties; None if none are set or expected."""
        known = properties_of(schema)
        more = {key: it for key, it in members.items() if key not in known and key != OTHERS}
        unread = members.get(OTHERS)
        is_open = schema.get("additionalProperties") or schema.get("patternProperties")
        if not more and unread is None and not is_open:
            return None
        hint = "Other properties, as a JSON object"
        field = json_field(path, unread or DraftMembers(more, is_sent=False), hint)
        self._number += 1
        field.name, field.number = name_of(Letter.OTHERS, path), self._number
        field.label = "more"
        return field

    def _array(self, schema: Schema, value: object, place: Place) -> FormField:
        rows = items_of(value)
        if rows is None and value not in (ABSENT, None, EMPTY):
            return json_field(place.path, value, "A JSON array.")
        items = schema.get("items", True)
        if isinstance(items, list) or "prefixItems" in schema:
            raise NoForm("has a separate schema for each row")
        if len(rows or ()) > MAX_ROWS:
            raise NoForm(f"has more than {MAX_ROWS} rows")
        self._check_level(place)
        if not rows and self._is_simple(items, place):
            rows = [EMPTY]
        self._reserve(rows or ())
        parts = [
            self.build(
                items,
                it,
                Place(path=(*place.path, number), definitions=place.definitions),
            )
            for number, it in enumerate(rows or ())
        ]
        letter = Letter.SENT_ARRAY if place.is_sent else Letter.ARRAY
        return FormField(
            kind=FieldKind.ARRAY,
            name=name_of(letter, place.path),
            parts=[_as_row(it) for it in parts],
        )

    def _is_simple(self, items: object, place: Place) -> bool:
        """Return whether a row is a single field, so that an empty row can be shown."""
        schema = self._reader.resolve(items, place.definitions).schema
        return type_of(schema) in ("string", "integer", "number", "boolean")

    def _check_level(self, place: Place) -> None:
        if len(place.path) >= MAX_LEVEL:
            raise NoForm(f"is nested deeper than {MAX_LEVEL} levels")

    def _reserve_choices(self, choices: Sequence[tuple[object, str]]) -> None:
        """Count the characters of choices. Raises NoForm if the page would be too long.

        After that, counting stops, because it takes 2 µs per hidden character.
        """
        if self._choice_chars_left >= 0:
            self._choice_chars_left -= chars_of(choices)
        if self._choice_chars_left < 0:
            raise NoForm("has too many choices for one page")

    def _reserve(self, parts: Sequence[object] | Mapping[str, object]) -> None:
        """Count fields before they are built. Raises NoForm if the page would have too many."""
        if len(parts) > self._left:
            raise NoForm(f"needs more than {MAX_FIELDS} fields on one page")
        self._left -= len(parts)


def _is_missing(field: FormField, draft: object) -> bool:
    has_parts = field.kind in (FieldKind.OBJECT, FieldKind.ARRAY)
    return not has_parts and field.kind is not FieldKind.FIXED and value_of(draft) is ABSENT


def _check_names(properties: Mapping[str, object], path: Path) -> None:
    """Raise NoForm for long names: each field repeats all names of its path."""
    longest = max(properties, key=len, default="")
    if len(longest) > MAX_NAME_CHARS:
        raise NoForm(f"has a name of more than {MAX_NAME_CHARS} characters")
    if len(key_of((*path, longest))) > MAX_PATH_CHARS:
        raise NoForm("has names that exceed the length limit")


def _as_row(field: FormField) -> FormField:
    """Return a field as a row, which is never required: empty rows are omitted, except objects."""
    field.is_required = False
    return field
