"""Parses the list options in the query of a request."""

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import parse_qsl

from starlette.types import Scope

from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.list_options import (
    MAX_NAME_CHARS,
    MIN_NAME_CHARS,
    ListOptions,
    SchemaStyle,
)
from mcp_tools_proxy.wire.text import quote

NAME_STYLE = "name_style"
SCHEMAS = "schemas"
NAME_MAX = "name_max"
_LENGTHS = f"a number from {MIN_NAME_CHARS} to {MAX_NAME_CHARS}"


class InvalidListOption(InvalidRequest):
    """The query has an unknown or repeated list option; its HTTP status is 400 at every entry."""


def name_style_of(scope: Scope) -> ToolNameStyle | None:
    """Return the name style in the query, if any. Raises InvalidListOption."""
    return _style(_given(scope))


def list_options_of(scope: Scope, entry: ListOptions) -> ListOptions:
    """Return the entry's options, overridden by the query. Raises InvalidListOption."""
    query: bytes = scope["query_string"]
    if not query:
        return entry
    given = _given(scope)
    if not given:
        return entry
    schemas, name_max = given.get(SCHEMAS), given.get(NAME_MAX)
    return replace(
        entry,
        name_style=_style(given),
        schemas=None if schemas is None else SchemaStyle(_one_of(SCHEMAS, schemas)),
        name_max=None if name_max is None else _length(name_max),
    )


def query_of(options: ListOptions) -> str:
    """Return the query parameters of requested options."""
    named = zip((NAME_STYLE, SCHEMAS, NAME_MAX), options.requested, strict=True)
    return "".join(f"&{key}={value}" for key, value in named if value is not None)


def _given(scope: Scope) -> Mapping[str, str]:
    given: dict[str, str] = {}
    query: bytes = scope["query_string"]
    for key, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if key in given:
            expected = _LENGTHS if key == NAME_MAX else ", ".join(_VALUES[key])
            raise _refused(key, f"is given twice; keep one of {expected}")
        if key in (NAME_STYLE, SCHEMAS, NAME_MAX):
            given[key] = value
    return given


def _style(given: Mapping[str, str]) -> ToolNameStyle | None:
    if NAME_STYLE not in given:
        return None
    return ToolNameStyle(_one_of(NAME_STYLE, given[NAME_STYLE]))


_VALUES: Mapping[str, tuple[str, ...]] = {
    NAME_STYLE: tuple(ToolNameStyle),
    SCHEMAS: tuple(SchemaStyle),
}


def _one_of(key: str, value: str) -> str:
    if value not in _VALUES[key]:
        raise _refused(key, f"should be one of {', '.join(_VALUES[key])}, not {quote(value)}")
    return value


def _length(value: str) -> int:
    if value.isascii() and value.isdigit() and len(value) == 2:
        length = int(value)
        if MIN_NAME_CHARS <= length <= MAX_NAME_CHARS:
            return length
    raise _refused(NAME_MAX, f"should be {_LENGTHS}, not {quote(value)}")


def _refused(key: str, problem: str) -> InvalidListOption:
    return InvalidListOption(f"{key}: {problem}", details={"field": key})
