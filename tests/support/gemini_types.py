"""Types of the Gemini API as in its documentation; unknown keys are refused.

Google's own package is not a dependency, because it brings a client of 30 MB.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypeAliasType, TypedDict

_CLOSED = ConfigDict(extra="forbid", strict=True)

ParameterName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]


@with_config(_CLOSED)
class _Described(TypedDict):
    description: NotRequired[str]
    nullable: NotRequired[bool]


class StringSchema(_Described):
    type: Literal["STRING"]
    format: NotRequired[Literal["date-time"]]
    enum: NotRequired[Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]]
    minLength: NotRequired[int]
    maxLength: NotRequired[int]


class NumberSchema(_Described):
    type: Literal["NUMBER", "INTEGER"]
    format: NotRequired[Literal["float", "double", "int32", "int64"]]
    minimum: NotRequired[float]
    maximum: NotRequired[float]


class BooleanSchema(_Described):
    type: Literal["BOOLEAN"]


class ArraySchema(_Described):
    """A list, whose items need a schema."""

    type: Literal["ARRAY"]
    items: "Schema"
    minItems: NotRequired[int]
    maxItems: NotRequired[int]


class ObjectSchema(_Described):
    type: Literal["OBJECT"]
    properties: NotRequired[Annotated[dict[ParameterName, "Schema"], Field(min_length=1)]]
    required: NotRequired[Annotated[list[str], Field(min_length=1)]]
    minProperties: NotRequired[int]
    maxProperties: NotRequired[int]


@with_config(_CLOSED)
class Choice(TypedDict):
    """Alternatives; Vertex AI accepts no other key beside them."""

    anyOf: Annotated[list["Schema"], Field(min_length=2)]


Schema = TypeAliasType(
    "Schema",
    StringSchema | NumberSchema | BooleanSchema | ArraySchema | ObjectSchema | Choice,
)


@with_config(_CLOSED)
class FunctionDeclaration(TypedDict):
    """A tool; ``parameters`` is absent if it has no arguments."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$")]
    description: str
    parameters: NotRequired[ObjectSchema]


@with_config(_CLOSED)
class Tool(TypedDict):
    functionDeclarations: list[FunctionDeclaration]


@with_config(_CLOSED)
class FunctionCall(TypedDict):
    name: str
    args: NotRequired[dict[str, object]]
    id: NotRequired[str]


@with_config(_CLOSED)
class FunctionResponse(TypedDict):
    name: str
    response: dict[Literal["output", "error"], str]
    id: NotRequired[str]


@with_config(_CLOSED)
class Part(TypedDict, total=False):
    """A part: one of these keys, and optionally a signature."""

    text: str
    thought: bool
    thoughtSignature: str
    functionCall: FunctionCall
    functionResponse: FunctionResponse


@with_config(_CLOSED)
class Content(TypedDict):
    role: Literal["user", "model"]
    parts: Annotated[list[Part], Field(min_length=1)]
