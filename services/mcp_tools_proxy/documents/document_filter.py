"""Parses the filter that lists and searches of documents take."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from mcp_tools_proxy.documents.document_file import DocumentDate
from mcp_tools_proxy.documents.document_store import (
    DocumentFilter,
    FieldFilter,
    fold,
    folded_values,
)
from mcp_tools_proxy.wire.identifiers import LanguageTag
from mcp_tools_proxy.wire.problem_texts import place_of, problem_of

MAX_VALUES = 100
"""Values in one list of a filter."""

MAX_FIELDS = 20


def _as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


class _FilterPart(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


_Tags = Annotated[list[str], Field(max_length=MAX_VALUES), BeforeValidator(_as_list)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _TagFilter(_FilterPart):
    any: _Tags | None = None
    all: _Tags = []
    not_: Annotated[_Tags, Field(alias="not")] = []


class _DateFilter(_FilterPart):
    from_: Annotated[DocumentDate | None, Field(alias="from")] = None
    to: DocumentDate | None = None


class _WantedField(_FilterPart):
    values: Annotated[list[bool | int | float | str], Field(max_length=MAX_VALUES)] | None = None
    min: _Number | None = None
    max: _Number | None = None

    def to_filter(self) -> FieldFilter:
        values = None
        if self.values is not None:
            values = frozenset(it for value in self.values for it in folded_values(value))
        return FieldFilter(values=values, minimum=self.min, maximum=self.max)


def _in_parts(key: str, value: object) -> object:
    """Return a short form as an object: a value, or a list of them."""
    return value if isinstance(value, dict) else {key: _as_list(value)}


class _FilterArguments(_FilterPart):
    tags: Annotated[_TagFilter, BeforeValidator(lambda it: _in_parts("any", it))] = _TagFilter()
    language: LanguageTag | None = None
    date: _DateFilter = _DateFilter()
    metadata: Annotated[
        dict[str, Annotated[_WantedField, BeforeValidator(lambda it: _in_parts("values", it))]],
        Field(max_length=MAX_FIELDS),
    ] = {}


_KEYS = "tags (any, all, not), language, date (from, to), metadata (values, or min and max)"


def parse_filter(given: object) -> DocumentFilter:
    """Return the filter in a JSON object, or in its text. Raises ValueError with the problem."""
    try:
        content = from_json(given) if isinstance(given, str) else given
        wanted = _FilterArguments.model_validate(content)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        place = place_of(problem, whole="it")
        if problem["type"] == "extra_forbidden":
            raise ValueError(f"{place} is not a key; the keys are {_KEYS}") from None
        raise ValueError(f"{place}: {problem_of(problem)}") from None
    except (ValueError, TypeError):  # TypeError: a lone surrogate
        raise ValueError(f"should be an object; the keys are {_KEYS}") from None
    tags = wanted.tags
    return DocumentFilter(
        any_tags=None if tags.any is None else frozenset(map(fold, tags.any)),
        all_tags=frozenset(map(fold, tags.all)),
        not_tags=frozenset(map(fold, tags.not_)),
        language=None if wanted.language is None else wanted.language.lower(),
        date_from=wanted.date.from_,
        date_to=wanted.date.to,
        fields={name: it.to_filter() for name, it in wanted.metadata.items()},
    )
