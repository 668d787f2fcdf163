"""The ``bind`` of a server's entry and of an agent's profile: paths of arguments, and values."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationInfo
from pydantic import WithJsonSchema as Published

from mcp_tools_proxy.config.field_types import environment_for
from mcp_tools_proxy.config.texts.caller_texts import BOUND_PATTERN, read_caller_text
from mcp_tools_proxy.domain.offers.bindings import Binding, Path

_PART = r"(?:[^.\\\u0000]|\\[.\\])+"
PATH_PATTERN = rf"^{_PART}(?:\.{_PART})*$"
"""Names with dots between them; a dot in a name is ``\\.``, a backslash ``\\\\``."""

_PIECES = re.compile(r"\\(?P<escaped>[.\\])|(?P<dot>\.)|(?P<plain>[^.\\]+)")


def read_path(text: str) -> Path:
    """Return the names of a path. Raises ValueError."""
    if not re.fullmatch(PATH_PATTERN, text):
        raise ValueError(
            r"has a key that is not a path; write a.b for b in a, and a\.b for a property a.b"
        )
    names = [""]
    for piece in _PIECES.finditer(text):
        if piece["dot"]:
            names.append("")
        else:
            names[-1] += piece["escaped"] or piece["plain"]
    return tuple(names)


def bindings_of(bind: Mapping[str, object]) -> tuple[Binding, ...]:
    """Return the bindings of a checked ``bind``."""
    return tuple(Binding(path=read_path(text), value=value) for text, value in bind.items())


def _check_paths(bind: dict[str, Any]) -> None:
    """Raise ValueError for a path that is none, one within another, or a value that is null."""
    paths = [read_path(text) for text in bind]
    for path in paths:
        if any(len(path) < len(other) and other[: len(path)] == path for other in paths):
            raise ValueError("binds a property and one within it; bind one of them")
    if None in bind.values():
        raise ValueError("binds a property to null, which counts as absent; give it a value")
    if any(_has_variable(it) for it in bind.values() if not isinstance(it, str)):
        raise ValueError(
            "has ${ inside an object or a list, where it is not replaced; bind that property by "
            "its path, such as filter.by"
        )


def _has_variable(value: object) -> bool:
    """Return whether a text of a JSON value, keys included, could be meant to be replaced."""
    if isinstance(value, Mapping):
        return any(map(_has_variable, (*value.keys(), *value.values())))
    if isinstance(value, list):
        return any(map(_has_variable, value))
    return isinstance(value, str) and "${" in value


def _read_server_bind(bind: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    _check_paths(bind)
    environment = environment_for(info)
    return {
        text: read_caller_text(value, environment, secrets=False)
        if isinstance(value, str)
        else value
        for text, value in bind.items()
    }


def _read_agent_bind(bind: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    for tool, values in bind.items():
        server_id, colon, name = tool.partition(":")
        if not (server_id and colon and name):
            raise ValueError("has a key that is not server_id:tool; document tools cannot be bound")
        _check_paths(values)
        if any(map(_has_variable, values.values())):
            raise ValueError("has a value with ${; a profile can bind only constants")
    return bind


_VALUE = {"not": {"type": "null"}}
_TEXT = {"anyOf": [{"type": ["object", "array", "number", "boolean"]}, {"pattern": BOUND_PATTERN}]}

ServerBind = Annotated[
    dict[str, Any],
    AfterValidator(_read_server_bind),
    Published(
        {
            "type": "object",
            "propertyNames": {"pattern": PATH_PATTERN},
            "additionalProperties": {**_VALUE, **_TEXT},
        }
    ),
]
"""Path → any JSON but null; a text may have variables and parts of the caller."""

AgentBind = Annotated[
    dict[str, dict[str, Any]],
    AfterValidator(_read_agent_bind),
    Published(
        {
            "type": "object",
            "propertyNames": {"pattern": "^[^:]+:"},
            "additionalProperties": {
                "type": "object",
                "propertyNames": {"pattern": PATH_PATTERN},
                "additionalProperties": {
                    **_VALUE,
                    "anyOf": [
                        {"type": ["object", "array", "number", "boolean"]},
                        {"type": "string", "not": {"pattern": r"\$\{"}},
                    ],
                },
            },
        }
    ),
]
"""``server_id:tool`` → path → any JSON but null; constants only."""
