"""The keys of limits.json: models that validate the file and publish its JSON Schema.

The docstrings are part of the schema. Unknown keys are errors everywhere: a rule whose misspelt
condition is ignored, or that is ignored itself, would let calls pass that it should stop.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic import WithJsonSchema as Published

from mcp_tools_proxy.config.field_types import SNAKE_CASE_MODEL
from mcp_tools_proxy.wire.strict_json import whole_number

MAX_RULES = 1000
MAX_WINDOW_S = 366 * 86_400
MAX_LIMIT = 999_999_999_999_999
"""The largest number that the header ``RateLimit`` can show."""

NAME_PATTERN = "[A-Za-z0-9_-]{1,64}"
RESERVED_NAMES = ("document_calls", "document_tokens", "tenant_calls", "tenant_tokens")
"""The names of the settings' budgets."""

_MODEL = SNAKE_CASE_MODEL | ConfigDict(extra="forbid")


def _as_list(written: object) -> object:
    return [written] if isinstance(written, str) else written


def _not_reserved(name: str) -> str:
    if name in RESERVED_NAMES:
        raise ValueError("is the name of a built-in budget; choose another")
    return name


def _no_repeats(fields: list[str]) -> list[str]:
    if len(set(fields)) < len(fields):
        raise ValueError("has a field twice; keep one of them")
    return fields


_Value = Annotated[str, Field(min_length=1)]
_VALUE_SCHEMA = {"type": "string", "minLength": 1}
Values = Annotated[
    list[_Value],
    Field(min_length=1, default_factory=list),
    BeforeValidator(_as_list),
    Published({"anyOf": [_VALUE_SCHEMA, {"type": "array", "items": _VALUE_SCHEMA, "minItems": 1}]}),
]
"""One value, or several of which each is good; empty if the key is left out."""

_Limit = Annotated[
    int, Field(ge=1, le=MAX_LIMIT, default_factory=int), BeforeValidator(whole_number)
]
"""0 if the key is left out, which no file can say."""

_Window = Annotated[int, Field(ge=1, le=MAX_WINDOW_S), BeforeValidator(whole_number)]

_Name = Annotated[
    str,
    Field(pattern=f"^{NAME_PATTERN}$"),
    AfterValidator(_not_reserved),
    Published(
        {
            "type": "string",
            "pattern": f"^{NAME_PATTERN}$",
            "not": {"enum": list(RESERVED_NAMES)},
        }
    ),
]
_FieldName = Literal["tenant", "user", "agent", "server", "tool", "document"]
_Fields = Annotated[
    list[_FieldName],
    Field(min_length=1, default_factory=list),
    AfterValidator(_no_repeats),
]


class RuleMatch(BaseModel):
    """The calls that a rule applies to: a call must match every key.

    Each key has one value or a list of values, compared exactly. Without keys, the rule applies to
    all calls."""

    model_config = _MODEL

    tenant: Values = Field(examples=["acme"])
    """Tenants."""
    user: Values = Field(examples=["ann"])
    """Users. Users of different tenants are counted separately."""
    agent: Values = Field(examples=["researcher"])
    """Agents, by their profile names in agents.json."""
    server: Values = Field(examples=["tickets"])
    """Servers, by their ids in mcp.json. Their prompts and resources are included."""
    tool: Values = Field(examples=[["tickets:find", "search_document"]])
    """Tools, by their listed name (`server_id:name`) or by the server's own name."""
    document: Values = Field(examples=["handbook"])
    """Documents. Documents of different tenants are counted separately."""


class RuleEntry(BaseModel):
    """A budget for matching calls, in addition to the budgets of settings and other rules."""

    model_config = _MODEL | ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["calls"]}, {"required": ["tokens"]}]}
    )

    name: _Name = Field(examples=["tickets-per-user"])
    """The rule's name in errors, metrics and headers: 1 to 64 letters, digits, `_` or `-`."""
    match: RuleMatch = Field(examples=[{"server": "tickets"}])
    """The calls that the rule applies to; `{}` matches all."""
    each: _Fields = Field(examples=[["user"]], json_schema_extra={"uniqueItems": True})
    """Count separately for each value of these. If omitted, all matching calls share one
    counter."""
    calls: _Limit = Field(examples=[30])
    """Maximum calls in a window."""
    tokens: _Limit = Field(examples=[50_000])
    """Maximum result tokens in a window."""
    window_s: _Window = Field(examples=[60])
    """Length of a window in seconds. A window starts with the first call charged."""

    @model_validator(mode="after")
    def _limits_something(self) -> "RuleEntry":
        if not self.calls and not self.tokens:
            raise ValueError("limits nothing; set calls, tokens, or both")
        return self


class LimitsFile(BaseModel):
    """Budgets of calls and tokens for tenants, users, agents, servers, tools and documents."""

    model_config = _MODEL | ConfigDict(title="MCP Tools Proxy: limits.json")

    schema_: str = Field(
        default="", alias="$schema", title="JSON Schema", examples=["limits.schema.json"]
    )
    """The JSON Schema of this file, for editors."""
    rules: Annotated[list[RuleEntry], Field(max_length=MAX_RULES)] = Field(
        examples=[
            [
                {
                    "name": "tickets-per-user",
                    "match": {"server": "tickets"},
                    "each": ["user"],
                    "calls": 30,
                    "window_s": 60,
                }
            ]
        ]
    )
    """The rules, at most 1,000, with unique names. All rules that match a call apply."""
