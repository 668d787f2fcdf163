"""limits.json: its schema, and the active rules from its last valid version, with warnings.

The docstrings of the models are published. Unknown keys are errors: an ignored rule or condition
would admit calls that the rule should stop.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic import WithJsonSchema as Published
from pydantic_core import ErrorDetails

from mcp_tools_proxy.config.field_types import SnakeCaseModel
from mcp_tools_proxy.config.json_file import (
    Location,
    json_path,
    limit_problems,
    load_or_keep_last_good,
    problem_of_error,
    read_if_there,
)
from mcp_tools_proxy.config.unknown_keys import Oddity, duplicate_names, group_oddities
from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.budget import CallField, LimitRule, LimitRules
from mcp_tools_proxy.domain.configuration import Agents, Configuration, InvalidConfig, Problem
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.run import NO_QUOTA, RunQuota
from mcp_tools_proxy.wire.identifiers import server_id_of, with_server_id
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.strict_json import whole_number
from mcp_tools_proxy.wire.text import quote

LIMITS_FILE = "limits.json"


NO_LIMITS = LimitRules()
"""The object that ``load_limits`` returns without a limits.json: compare with ``is``."""


_NO_CALL_IS_TAKEN = Problem(
    file=LIMITS_FILE, path="$", message="until it is fixed, all calls are refused"
)


MAX_RULES = 1000


MAX_WINDOW_S = 366 * 86_400


MAX_LIMIT = 999_999_999_999_999
"""The largest number in the header ``RateLimit``."""


NAME_PATTERN = "[A-Za-z0-9_-]{1,64}"


RESERVED_NAMES = ("document_calls", "document_tokens", "tenant_calls", "tenant_tokens")


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
"""One value or several alternatives; empty if the key is missing."""


_Limit = Annotated[
    int, Field(ge=1, le=MAX_LIMIT, default_factory=int), BeforeValidator(whole_number)
]
"""0 if the key is missing; files cannot contain 0."""


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


class RuleMatch(SnakeCaseModel):
    """The calls that a rule applies to: a call must match every key.

    Each key has one value or a list of values, compared exactly. Without keys, the rule applies to
    all calls."""

    model_config = ConfigDict(extra="forbid")

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


class RuleEntry(SnakeCaseModel):
    """A budget for matching calls, in addition to the budgets of settings and other rules."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"anyOf": [{"required": ["calls"]}, {"required": ["tokens"]}]},
    )

    name: _Name = Field(examples=["tickets-per-user"])
    """The rule's name in errors, metrics and headers: 1 to 64 letters, digits, `_` or `-`. It is
    unique, also among the settings' budgets."""
    match: RuleMatch = Field(examples=[{"server": "tickets"}])
    """The calls that the rule applies to, by `tenant`, `user`, `agent`, `server`, `tool` and
    `document`: each a value or a list. All given keys have to match; `{}` matches every call."""
    each: _Fields = Field(examples=[["user"]], json_schema_extra={"uniqueItems": True})
    """Count separately for each value of these. If omitted, all matching calls share one
    counter."""
    calls: _Limit = Field(examples=[30])
    """Maximum calls in a window. A rule has `calls`, `tokens` or both."""
    tokens: _Limit = Field(examples=[50_000])
    """Maximum result tokens in a window."""
    window_s: _Window = Field(examples=[60])
    """Length of a window in seconds, at most 366 days. A window starts with the first call
    charged."""

    @model_validator(mode="after")
    def _limits_something(self) -> "RuleEntry":
        if not self.calls and not self.tokens:
            raise ValueError("limits nothing; set calls, tokens, or both")
        return self


class RunLimitsEntry(SnakeCaseModel):
    """Limits of each run. A call beyond one is answered with `LOOP_STOPPED`."""

    model_config = ConfigDict(extra="forbid")

    calls: _Limit = Field(examples=[100])
    """Maximum calls, including refused ones."""
    tokens: _Limit = Field(examples=[200_000])
    """Maximum result tokens; the call that exceeds them is still answered."""
    errors: _Limit = Field(examples=[20])
    """Maximum failed and refused calls."""
    repeats: _Limit = Field(examples=[10])
    """Maximum calls with the tool and arguments of an earlier call of the run."""

    @property
    def quota(self) -> RunQuota:
        """The limits."""
        return RunQuota(
            calls=self.calls, tokens=self.tokens, errors=self.errors, repeats=self.repeats
        )


class LimitsFile(SnakeCaseModel):
    """Budgets of calls and tokens for tenants, users, agents, servers, tools and documents."""

    model_config = ConfigDict(extra="forbid", title="MCP Tools Proxy: limits.json")

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
    run: RunLimitsEntry | None = Field(default=None, examples=[{"calls": 100}])
    """Limits of each run, in addition to the settings `MCP_PROXY_RUN_MAX_…` and to profiles."""


_KEYS_AT_DEPTH: dict[int, type[BaseModel]] = {
    1: LimitsFile,
    2: RunLimitsEntry,
    3: RuleEntry,
    4: RuleMatch,
}
"""The model of the object that contains a key, by the key's depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveLimits:
    """The active rules, and the problems of the current file."""

    rules: LimitRules | None = None
    """None until limits.json was first read or found to be absent."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def load_active_limits(
    folder: Path,
    before: ActiveLimits,
    configuration: Configuration | None,
    agents: Agents | None,
) -> ActiveLimits:
    """Load limits.json, and return the state that follows ``before``. Blocks.

    ``configuration`` and ``agents`` are the active ones, None if never loaded.
    """
    rules, problems = load_or_keep_last_good(
        partial(load_limits, folder), before.rules, absent=NO_LIMITS, file=LIMITS_FILE
    )
    if rules is None:
        return ActiveLimits(problems=(*problems, _NO_CALL_IS_TAKEN))
    oddities = _unmatched(rules, configuration, agents)
    warnings = limit_problems(LIMITS_FILE, group_oddities(LIMITS_FILE, oddities))
    return ActiveLimits(rules=rules, problems=problems, warnings=warnings)


def load_limits(folder: Path) -> LimitRules:
    """Load limits.json; ``NO_LIMITS`` if it does not exist, which is normal.

    Raises InvalidConfig, also for two rules with the same name.
    """
    written = read_if_there(folder / LIMITS_FILE)
    if written is None:
        return NO_LIMITS
    try:
        file = LimitsFile.model_validate(written)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise InvalidConfig(limit_problems(LIMITS_FILE, [*map(_problem, found)])) from error
    if problems := duplicate_names(LIMITS_FILE, "rules", (it.name for it in file.rules)):
        raise InvalidConfig(problems)
    rules = tuple(_rule(*numbered) for numbered in enumerate(file.rules))
    return LimitRules(rules=rules, run=NO_QUOTA if file.run is None else file.run.quota)


def _problem(error: ErrorDetails) -> Problem:
    if error["type"] != "extra_forbidden":
        return problem_of_error(LIMITS_FILE, error)
    place = error["loc"]
    key = str(place[-1])
    fields = _KEYS_AT_DEPTH[len(place)].model_fields
    hint = did_you_mean(closest_match(key, [*fields]), "; correct or remove it")
    message = f"{quote(key)} is not a known key{hint}"
    return Problem(file=LIMITS_FILE, path=json_path(place), message=message)


def _rule(index: int, entry: RuleEntry) -> LimitRule:
    values: dict[CallField, Iterable[str]]
    values = {field: getattr(entry.match, field.value) for field in CallField}
    values[CallField.SERVER] = map(server_id_of, entry.match.server)
    values[CallField.TOOL] = (*entry.match.tool, *map(with_server_id, entry.match.tool))
    return LimitRule(
        name=entry.name,
        match={field: found for field, it in values.items() if (found := frozenset(it))},
        each=frozenset(CallField(field) for field in entry.each),
        calls=entry.calls,
        tokens=entry.tokens,
        window_s=entry.window_s,
        source=RuleSource(LIMITS_FILE, json_path(("rules", index))),
    )


def _unmatched(
    rules: LimitRules, configuration: Configuration | None, agents: Agents | None
) -> Iterator[Oddity]:
    """Yield the servers and agents of rules that do not exist and match no calls."""
    servers = None if configuration is None else configuration.server_ids
    known_agents = None if agents is None else agents.profiles.keys()
    for index, rule in enumerate(rules.rules):
        place = ("rules", index, "match")
        yield from _unknown(rule, CallField.SERVER, servers, place, "a server in mcp.json")
        yield from _unknown(rule, CallField.AGENT, known_agents, place, "an agent in agents.json")


def _unknown(
    rule: LimitRule,
    field: CallField,
    known: Iterable[str] | None,
    place: Location,
    described: str,
) -> Iterator[Oddity]:
    if known is None:
        return
    for value in sorted(rule.match.get(field, frozenset()).difference(known)):
        hint = did_you_mean(closest_match(value, known), ", so it matches no call")
        yield (*place, field.value), f"{quote(value)} is not {described}{hint}"
