"""Removal of optional fields of the wrong type from listed items and from results.

Clients reject a whole list or result because of one wrong field. Fields unknown to MCP are kept
(W-14).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import date

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MAX_NAMED = 10
"""Maximum named fields of one item: an array can have thousands of wrong members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The expected shape of a value: one of ``types``, and one of ``choices`` if not empty.

    ``fields`` are the optional fields of an object, ``needs`` its required texts, ``members`` the
    shape of an array's members. ``between`` bounds a number. ``check`` validates a text.
    """

    types: tuple[type, ...]
    choices: frozenset[str] = frozenset()
    between: tuple[float, float] | None = None
    check: Callable[[str], bool] | None = None
    needs: tuple[str, ...] = ()
    fields: Mapping[str, "Shape"] = field(default_factory=dict)
    members: "Shape | None" = None

    def fits(self, value: object) -> bool:
        """Return whether a value has this shape, regardless of its optional fields and members."""
        if not isinstance(value, self.types) or (isinstance(value, bool) and self.types != (bool,)):
            return False
        match value:
            case str():
                if self.check is not None and not self.check(value):
                    return False
                return _is_unicode(value) and (not self.choices or value in self.choices)
            case int() | float() if self.between is not None:
                return self.between[0] <= value <= self.between[1]
            case dict():
                return all(isinstance(value.get(key), str) for key in self.needs)
        return True


_DATE_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)


def _is_date_time(text: str) -> bool:
    """Return whether a text is a time with a zone; clients refuse all resources for other texts."""
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        return False
    try:
        date.fromisoformat(found[1])
    except ValueError:
        return False
    return True


TEXT = Shape(types=(str,))
DATE_TIME = Shape(types=(str,), check=_is_date_time)
FLAG = Shape(types=(bool,))
OBJECT = Shape(types=(dict,))
TEXTS = Shape(types=(list,), members=TEXT)


def one_of(*choices: str) -> Shape:
    """Build the shape of a text that is one of ``choices``."""
    return Shape(types=(str,), choices=frozenset(choices))


ICON = Shape(
    types=(dict,),
    needs=("src",),
    fields={"mimeType": TEXT, "sizes": TEXTS, "theme": one_of("light", "dark")},
)
_OF_ALL = {
    "title": TEXT,
    "description": TEXT,
    "icons": Shape(types=(list,), members=ICON),
    "_meta": OBJECT,
}
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
OF_TOOLS: Mapping[str, Shape] = _OF_ALL | {
    "outputSchema": OBJECT,
    "annotations": Shape(types=(dict,), fields={"title": TEXT, **dict.fromkeys(_HINTS, FLAG)}),
    "execution": Shape(
        types=(dict,), fields={"taskSupport": one_of("forbidden", "optional", "required")}
    ),
}
OF_PROMPTS: Mapping[str, Shape] = _OF_ALL | {
    "arguments": Shape(
        types=(list,),
        members=Shape(
            types=(dict,),
            needs=("name",),
            fields={"title": TEXT, "description": TEXT, "required": FLAG},
        ),
    ),
}
OF_TEMPLATES: dict[str, Shape] = _OF_ALL | {
    "name": TEXT,
    "mimeType": TEXT,
    "annotations": Shape(
        types=(dict,),
        fields={
            "audience": Shape(types=(list,), members=one_of("user", "assistant")),
            "priority": Shape(types=(int, float), between=(0, 1)),
            "lastModified": DATE_TIME,
        },
    ),
}
OF_RESOURCES: Mapping[str, Shape] = OF_TEMPLATES | {"size": Shape(types=(int,))}
OF_LINKS = {key: shape for key, shape in OF_RESOURCES.items() if key != "name"}
OF_CONTENT = {"annotations": OF_TEMPLATES["annotations"], "_meta": OBJECT}
OF_CONTENTS = {"mimeType": TEXT, "_meta": OBJECT}


def drop_invalid_fields(
    item: JsonObject, fields: Mapping[str, Shape]
) -> tuple[JsonObject, tuple[str, ...]]:
    """Return an item without the optional fields of the wrong type, and the names of these.

    An unchanged item is returned itself. A null field is removed but not named.
    """
    field_filter = _FieldFilter()
    valid = field_filter.without(item, fields, "")
    return valid, field_filter.named()


class _FieldFilter:
    """Removal of wrong fields, with their paths, such as ``icons[2].src``."""

    def __init__(self) -> None:
        self._places: list[str] = []
        self._more = 0

    def named(self) -> tuple[str, ...]:
        more = (f"{self._more} more",) if self._more else ()
        return (*self._places, *more)

    def without(self, item: JsonObject, fields: Mapping[str, Shape], place: str) -> JsonObject:
        """Return an object without its wrong fields; itself if nothing changes."""
        changed = dict(self._changes(item, fields, place))
        if not changed:
            return item
        kept = {key: changed.get(key, value) for key, value in item.items()}
        return {key: value for key, value in kept.items() if value is not None or key not in fields}

    def _changes(
        self, item: JsonObject, fields: Mapping[str, Shape], place: str
    ) -> Iterator[tuple[str, object]]:
        """Yield each changed field with its new value; None means removed."""
        for key, shape in fields.items():
            if key in item:
                value = item[key]
                valid = None if value is None else self._valid_part(value, shape, f"{place}{key}")
                if valid is None or valid is not value:
                    yield key, valid

    def _valid_part(self, value: object, shape: Shape, place: str) -> object:
        """Return a value, or a copy without its wrong parts; None if the value itself is wrong."""
        if not shape.fits(value):
            self._add(place)
            return None
        if isinstance(value, dict) and shape.fields:
            return self.without(value, shape.fields, f"{place}.")
        if isinstance(value, list) and shape.members is not None:
            return self._members(value, shape.members, place)
        return value

    def _members(self, values: list[object], shape: Shape, place: str) -> list[object]:
        valid = [self._valid_part(it, shape, f"{place}[{i}]") for i, it in enumerate(values)]
        if all(new is old for new, old in zip(valid, values, strict=True)) and None not in valid:
            return values
        return [it for it in valid if it is not None]

    def _add(self, place: str) -> None:
        if len(self._places) < MAX_NAMED:
            self._places.append(place)
        else:
            self._more += 1


def _is_unicode(text: str) -> bool:
    """Return whether a text is free of lone surrogates, which JSON cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
