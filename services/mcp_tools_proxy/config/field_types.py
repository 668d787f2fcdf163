"""Field types of configuration files, each with its rule in Python and as JSON Schema.

Loader and published schema use the same types, so that they agree.
"""

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    GetPydanticSchema,
    Strict,
    ValidationInfo,
)
from pydantic import WithJsonSchema as Published
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict
from pydantic.fields import ComputedFieldInfo, FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from mcp_tools_proxy.config.variables import (
    BOUND_PATTERN,
    CALLER_PATTERN,
    PATTERN,
    check_variables,
    fill_in,
    has_caller_text,
    read_caller_parts,
    read_caller_text,
)
from mcp_tools_proxy.domain.bindings import Binding, Path
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate
from mcp_tools_proxy.policy.aliases import MODEL_NAME_PATTERN
from mcp_tools_proxy.wire.identifiers import (
    SERVER_ID_PATTERN,
    SERVER_NAME_CHARS,
    SERVER_NAME_PATTERN,
)
from mcp_tools_proxy.wire.strict_json import whole_number


def refuse_null(value: object) -> object:
    """Refuse null if it would be ambiguous: nothing, or everything. Raises ValueError."""
    if value is None:
        raise ValueError("is null: leave the key out, or give it a value")
    return value


def never_null(schema: JsonDict) -> None:
    """Remove null from the published schema of a field that ``refuse_null`` checks."""
    choices = schema.pop("anyOf")
    if isinstance(choices, list) and isinstance(choices[0], dict):
        schema |= choices[0]
    del schema["default"]


def _title(name: str, _: FieldInfo | ComputedFieldInfo) -> str:
    return name.replace("_", " ").capitalize()


class FileModel(BaseModel):
    """A part of a configuration file. JSON Schema describes its fields by their docstrings."""

    model_config = ConfigDict(
        strict=True,
        extra="allow",  # an unknown key is a warning
        frozen=True,
        alias_generator=to_camel,
        field_title_generator=_title,
        defer_build=True,  # until the first file: building takes 30 ms of the start
    )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add the docstrings. ``use_attribute_docstrings`` reads them at each start, for 50 ms."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for model in reversed(cls.__mro__):
            if issubclass(model, FileModel):
                for name, text in _docstrings(model):
                    properties[cls.model_fields[name].alias or name]["description"] = text
        return schema


def _docstrings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    (definition,) = ast.parse(inspect.getsource(model)).body
    for field, text in pairwise(ast.iter_child_nodes(definition)):
        match field, text:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(docstring))):
                yield name, inspect.cleandoc(docstring)


class SnakeCaseModel(FileModel):
    """A part of agents.json or limits.json, our own formats, with the key style of our requests."""

    model_config = ConfigDict(alias_generator=None)


@cache
def keys_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the keys that a model reads, as files spell them."""
    return tuple(info.alias or name for name, info in model.model_fields.items())


ID_PATTERN = SERVER_ID_PATTERN
ID_RULE = 'is 1 to 64 letters, digits, "_", "-" or "."'
HEADER_NAME_PATTERN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
VARIABLE_NAME_PATTERN = r"[^=\u0000]+"

_CONTROL = r"\u0000-\u0008\u000a-\u001f\u007f"
_NOT_UTF8 = r"\ud800-\udfff"  # surrogates: Python's form of environment bytes that are not UTF-8
_NOT_IN_URL = r"\s\u0000-\u001f\u007f"
_HOST_ON = (
    rf"://(?:[^{_NOT_IN_URL}/?#@]*@)?"
    rf"(?:\[[0-9A-Fa-f:.]+\]|[^{_NOT_IN_URL}/?#@:\[\]]+)(?::[0-9]{{1,5}})?"
    rf"(?:[/?#][^{_NOT_IN_URL}]*)?"
)
HTTP_URL_PATTERN = "[hH][tT][tT][pP][sS]?" + _HOST_ON
WEBSOCKET_URL_PATTERN = "[wW][sS][sS]?" + _HOST_ON
ANY_URL_PATTERN = f"(?:{HTTP_URL_PATTERN}|{WEBSOCKET_URL_PATTERN})"


def environment_for(info: ValidationInfo) -> Mapping[str, str] | None:
    """Return the environment for a server's variables; None to keep the variables.

    Variables of a disabled server are kept, because they can be unset.
    """
    disabled = info.data.get("enabled") is False or info.data.get("disabled") is True
    environment: Mapping[str, str] | None = info.context
    return None if disabled else environment


def check_url(url: str, pattern: str, schemes: str) -> None:
    """Raise ValueError unless ``url`` matches ``pattern`` and has a valid host and port."""
    if not re.fullmatch(pattern, url) or re.search(f"[{_NOT_UTF8}]", url):
        raise ValueError(f"should be a URL with a host, beginning with {schemes}")
    try:
        urlsplit(url).port  # noqa: B018 - the property raises ValueError for a bad port
    except ValueError as error:
        raise ValueError("has an invalid host or port") from error


SERVER_KEYS: JsonDict = {
    "propertyNames": {"pattern": f"^{SERVER_NAME_PATTERN}$", "maxLength": SERVER_NAME_CHARS}
}
"""The JSON Schema of an object whose keys name servers."""


def key_rule(pattern: str) -> JsonDict:
    """Return the JSON Schema of an object whose keys match ``pattern``."""
    return {"propertyNames": {"pattern": f"^{pattern}$"}}


def _fill_in(text: str, info: ValidationInfo) -> str:
    _without_caller(text)
    check_variables(text)
    environment = environment_for(info)
    text = text if environment is None else fill_in(text, environment)
    if "\0" in text:
        raise ValueError("contains a NUL character")
    return text


def _without_caller(text: str) -> str:
    if has_caller_text(text):
        raise ValueError(
            "has ${caller.…} or ${secret:…}, which is allowed only in args, cwd, env and headers"
        )
    return text


def _read_bound_text(text: str, info: ValidationInfo) -> str | CallerTemplate:
    read = read_caller_text(text, environment_for(info), secrets=False)
    return _without(read, "\0", "contains a NUL character")


def _read_caller_text(text: str, info: ValidationInfo) -> str | CallerTemplate:
    return _without(read_caller_text(text, environment_for(info)), "\0", "contains a NUL character")


def _read_header(text: str, info: ValidationInfo) -> str | CallerTemplate:
    return _without(
        read_caller_text(text, environment_for(info)),
        f"[{_CONTROL}{_NOT_UTF8}]",
        "contains a line break, another control character, or invalid text",
    )


def _as_text(value: object) -> object:
    """Return a number or boolean as JSON text; other values unchanged."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _read_folder(text: str, _: ValidationInfo) -> str | CallerTemplate:
    """Keep variables, which are not supported in folders."""
    return read_caller_parts(_not_blank(text))


def _without(read: str | CallerTemplate, characters: str, message: str) -> str | CallerTemplate:
    """Return a text or template. Raises ValueError if its literal text has such characters."""
    texts = (read,) if isinstance(read, str) else read.parts
    if any(isinstance(text, str) and re.search(characters, text) for text in texts):
        raise ValueError(message)
    return read


def _read_as(
    read: Callable[[str, ValidationInfo], str | CallerTemplate],
) -> GetPydanticSchema:
    """Return an annotation for a field that validates a string, and converts it with ``read``."""
    return read_into(Annotated[str, AfterValidator(read)])


def read_into(like: object) -> GetPydanticSchema:
    """Return an annotation for a field that validates as ``like``, and takes its last result."""
    return GetPydanticSchema(lambda _, handler: handler(like))


def _matches(pattern: str, message: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(message)
        return text

    return AfterValidator(check)


_VISIBLE = re.compile(r"[^\s\ufeff]")
"""A character other than a space in JSON Schema's sense, which includes U+FEFF, unlike Python's."""


def _not_blank(text: str) -> str:
    if not _VISIBLE.search(text):
        raise ValueError("should not be blank")
    if "\0" in text:
        raise ValueError("contains a NUL character")
    return text


_NOT_BLANK = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"


def _check_override_name(name: str) -> str:
    if not re.fullmatch(MODEL_NAME_PATTERN, name):
        raise ValueError('should be 1 to 64 letters, digits, "_" or "-", which models accept')
    return name


NotBlank = Annotated[
    str,
    AfterValidator(_not_blank),
    Published({"type": "string", "pattern": _NOT_BLANK}),
]
Name = Annotated[str, Field(min_length=1)]
OverrideName = Annotated[
    str,
    AfterValidator(_check_override_name),
    Published({"type": "string", "pattern": f"^{MODEL_NAME_PATTERN}$"}),
]
Filled = Annotated[str, AfterValidator(_fill_in), Published({"type": "string", "pattern": PATTERN})]
"""Text with ``${VAR}`` replaced."""
BoundText = Annotated[
    str | CallerTemplate,
    _read_as(_read_bound_text),
    Published({"type": "string", "pattern": BOUND_PATTERN}),
]
"""Text with ``${VAR}`` replaced; can contain parts of the caller, but no secrets."""
CallerText = Annotated[
    str | CallerTemplate,
    _read_as(_read_caller_text),
    Published({"type": "string", "pattern": CALLER_PATTERN}),
]
"""Text with ``${VAR}`` replaced; can contain parts of the caller and secrets."""
VariableValue = Annotated[
    str | CallerTemplate,
    _read_as(_read_caller_text),
    BeforeValidator(_as_text),
    Published(
        {"anyOf": [{"type": "string", "pattern": CALLER_PATTERN}, {"type": ["number", "boolean"]}]}
    ),
]
"""A CallerText; a number or a boolean becomes its JSON text."""
HeaderValue = Annotated[
    str | CallerTemplate,
    _read_as(_read_header),
    Published(
        {
            "type": "string",
            "allOf": [{"pattern": CALLER_PATTERN}, {"pattern": f"^[^{_CONTROL}]*$"}],
        }
    ),
]
Folder = Annotated[
    str | CallerTemplate,
    _read_as(_read_folder),
    Published({"type": "string", "pattern": _NOT_BLANK}),
]
"""A folder; variables are kept, but parts of the caller and secrets are parsed."""
Command = Annotated[
    NotBlank,
    AfterValidator(_without_caller),
    Published({"type": "string", "pattern": _NOT_BLANK}),
]
CallerPartName = Annotated[
    CallerPart,
    Strict(False),
    Published({"type": "string", "enum": [part.value for part in CallerPart]}),
]
HeaderName = Annotated[
    str, _matches(HEADER_NAME_PATTERN, "has a name that is not valid for an HTTP header")
]
VariableName = Annotated[
    str, _matches(VARIABLE_NAME_PATTERN, "has a name that is not valid for an environment variable")
]
ServerId = Annotated[
    str, _matches(ID_PATTERN, f"is not a server id: an id {ID_RULE}, without a colon")
]
Number = Annotated[float, Field(allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(whole_number)]
Count = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]


_PART = r"(?:[^.\\\u0000]|\\[.\\])+"
PATH_PATTERN = rf"^{_PART}(?:\.{_PART})*$"
"""Names separated by dots; a dot in a name is ``\\.``, a backslash ``\\\\``."""

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
    """Return the bindings of a validated ``bind``."""
    return tuple(Binding(path=read_path(text), value=value) for text, value in bind.items())


def _check_paths(bind: dict[str, Any]) -> None:
    """Raise ValueError for an invalid path, one within another, or a null value."""
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
    """Return whether a text in a JSON value, including keys, looks like a variable."""
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
"""Path → any JSON except null; a text can have variables and parts of the caller."""

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
"""``server_id:tool`` → path → any JSON except null; constants only."""


def refuse_misplaced(file: object, keys: Iterable[str], place: str) -> None:
    """Raise ValueError for a restricting key that belongs elsewhere."""
    found = sorted(file.keys() & set(keys)) if isinstance(file, Mapping) else ()
    if found:
        raise ValueError(f"has the key {found[0]}, which belongs in {place}")
