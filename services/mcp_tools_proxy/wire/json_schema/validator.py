"""Validates tool arguments against the JSON Schemas of servers."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple, NoReturn

from jsonschema_rs import (
    FancyRegexOptions,
    RegexOptions,
    ValidationError,
    ValidationErrorKind,
    Validator,
    validator_for,
)
from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.bindings import Path
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.errors import InvalidArguments
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.wire.json_schema.complexity import (
    MAX_PATTERN_BYTES,
    MAX_STEPS,
    Cost,
    Estimate,
    SchemaTooComplex,
    check_patterns,
    compile_cost,
    cost_of_small,
    estimate_cost,
    is_small,
)
from mcp_tools_proxy.wire.problem_texts import MAX_PROBLEMS, join_first
from mcp_tools_proxy.wire.text import QUOTE_CHARS, quote

MAX_PROBLEM_CHARS = 300

ALL_PROBLEMS_BYTES = 4096
"""Maximum bytes of arguments for a report of all problems: finding all in a megabyte of invalid
items takes seconds."""

REGEX_STEPS = 10_000
"""Backtracking steps of one pattern on one string; more count as a mismatch."""

INLINE_NS = 25_000_000
"""Estimated time above which a check, or a search for problems, runs in a separate process,
which can be stopped."""

EXPLAINED_NS = 500_000_000
"""Estimated time above which the error names no problem, even in a process."""

MAX_SCHEMA_BYTES = 512 * 1024
"""Compiling a schema of this size takes up to 50 ms, during which no other thread runs."""

CACHED_SCHEMAS = 40_000
"""Both schemas of the maximum number of tools per server, for refreshes."""

_ARGUMENTS = "arguments"

_VALUE = "the value"
"""Replaces an argument's value in the library's messages, because it can be a secret."""


class _Located(NamedTuple):
    """A problem, and the path of the filled-in argument that contains it, if any."""

    problem: ValidationError
    filled_in: Path | None


class BrokenSchema(Exception):
    """A schema cannot be compiled; ``reason`` explains why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LongText(NamedTuple):
    """A text in the arguments: its place, its top-level argument, and its length."""

    place: str
    argument: str
    chars: int


class CostlyCheck(Exception):
    """A check can take too long for the event loop, and needs a separate process."""

    def __init__(
        self, schema_json: bytes, arguments: JsonObject, filled_in: Sequence[Path]
    ) -> None:
        super().__init__("the check needs a separate process")
        self.schema_json = schema_json
        self.arguments = arguments
        self.filled_in = filled_in

    def longest_text(self) -> LongText | None:
        """Return the longest text that the caller sent; None without texts."""
        found: LongText | None = None
        waiting: list[tuple[tuple[str | int, ...], object]] = [((), self.arguments)]
        while waiting:
            place, value = waiting.pop()
            if place in self.filled_in:
                continue
            match value:
                case str() if found is None or len(value) > found.chars:
                    found = LongText(_path(place), str(place[0])[:QUOTE_CHARS], len(value))
                case dict():
                    waiting += (((*place, key), part) for key, part in value.items())
                case list():
                    waiting += (((*place, key), part) for key, part in enumerate(value))
        return found


class ArgumentCheck:
    """Accepts the arguments of one tool, or raises InvalidArguments; see ``compile_check``."""

    def __init__(self, validator: Validator, cost: Cost, schema_json: bytes) -> None:
        self._validator = validator
        self._cost = cost
        self._schema_json = schema_json
        small = cost_of_small(cost)
        self._is_cheap_if_small = (
            small.steps <= MAX_STEPS and max(small.ns, small.explanation_ns) <= INLINE_NS
        )

    def __call__(self, arguments: JsonObject, filled_in: Sequence[Path] = (), /) -> None:
        """Raise InvalidArguments with path and rule of each problem, never a value.

        For arguments at the paths ``filled_in``, only the path is reported: names within are part
        of the value. Raises CostlyCheck if the check can take long.
        """
        if self._is_cheap_if_small and is_small(arguments) and self._is_valid(arguments):
            return
        estimate = estimate_cost(arguments, self._cost)
        if estimate.steps > MAX_STEPS:
            raise InvalidArguments(
                "arguments: are too large or too deeply nested to be checked against this "
                "tool's inputSchema; send less at a time"
            )
        if estimate.ns > INLINE_NS:
            raise CostlyCheck(self._schema_json, arguments, filled_in)
        if not self._is_valid(arguments):
            if INLINE_NS < estimate.explanation_ns <= EXPLAINED_NS:
                raise CostlyCheck(self._schema_json, arguments, filled_in)
            self._raise_problems(arguments, filled_in, estimate)

    def check_at_any_cost(self, arguments: JsonObject, filled_in: Sequence[Path]) -> None:
        """Check arguments like a call of this object, without a time limit."""
        if not self._is_valid(arguments):
            self._raise_problems(arguments, filled_in, estimate_cost(arguments, self._cost))

    def _is_valid(self, arguments: JsonObject) -> bool:
        try:
            return self._validator.is_valid(arguments)
        except ValueError:  # the library cannot convert them
            raise InvalidArguments(
                "arguments: have text that is not valid Unicode, or are nested too deeply; "
                "correct the text, or nest less"
            ) from None

    def _raise_problems(
        self, arguments: JsonObject, filled_in: Sequence[Path], estimate: Estimate
    ) -> NoReturn:
        problems = self._problems(arguments, estimate)
        text = join_first([_located(it, filled_in) for it in problems], _text_of)
        names = dict.fromkeys(name for problem in problems for name in _top_level_names(problem))
        raise InvalidArguments(
            text or "arguments: do not match this tool's inputSchema; compare them and call again",
            details={"arguments": list(islice(names, MAX_PROBLEMS))},
        )

    def mismatch(self, value: object, subject: str) -> str | None:
        """Return how ``value``, a result, violates the schema; None if it matches.

        ``subject`` names the value. A value whose check can take long counts as a mismatch.
        """
        estimate = estimate_cost(value, self._cost)
        if estimate.steps > MAX_STEPS or estimate.ns > INLINE_NS:
            return f"{subject}: is too large or too deeply nested to be checked"
        try:
            if self._validator.is_valid(value):
                return None
            is_explained = estimate.explanation_ns <= INLINE_NS
            problems = self._problems(value, estimate) if is_explained else []
        except ValueError:  # the library cannot convert it
            return f"{subject}: is nested too deeply, or has text that is not valid Unicode"
        found = join_first(problems, partial(_describe, subject=subject))
        return found or f"{subject}: does not match the schema"

    def _problems(self, arguments: object, estimate: Estimate) -> list[ValidationError]:
        if estimate.explanation_ns > EXPLAINED_NS:
            return []
        if estimate.explanation_ns <= INLINE_NS and len(to_json(arguments)) <= ALL_PROBLEMS_BYTES:
            return list(self._validator.iter_errors(arguments))
        try:
            self._validator.validate(arguments)
        except ValidationError as error:
            return [without_frames(error)]
        return []


def compile_check(schema: Mapping[str, object]) -> ArgumentCheck:
    """Compile a schema: JSON Schema 2020-12, or the draft in ``$schema``.

    External references are never fetched and make the schema unusable. The steps of each pattern
    and the whole check are bounded. Raises BrokenSchema.
    """
    try:
        schema_json = to_json(schema)
    except ValueError:
        raise BrokenSchema(
            "its inputSchema is nested too deeply, or has text that is not valid Unicode"
        ) from None
    if len(schema_json) > MAX_SCHEMA_BYTES:
        raise BrokenSchema(
            f"its inputSchema is {len(schema_json)} bytes, the limit is {MAX_SCHEMA_BYTES}"
        )
    return compile_json(schema_json)


@lru_cache(maxsize=CACHED_SCHEMAS)
def compile_json(schema_json: bytes, regex_steps: int = REGEX_STEPS) -> ArgumentCheck:
    """Compile a schema given as JSON, like ``compile_check``."""
    schema = from_json(schema_json)
    try:
        backtracks = check_patterns(schema)
        validator = validator_for(
            schema_json.decode(),
            offline=True,
            mask=_VALUE,
            pattern_options=FancyRegexOptions(
                backtrack_limit=regex_steps, size_limit=MAX_PATTERN_BYTES
            )
            if backtracks
            else RegexOptions(size_limit=MAX_PATTERN_BYTES),
        )
        return ArgumentCheck(validator, compile_cost(schema), schema_json)
    except SchemaTooComplex as error:
        raise BrokenSchema(f"its inputSchema cannot be used: {error}") from None
    except ValidationError as error:
        place = "/".join(str(part) for part in error.instance_path)
        where = f" at {quote(place)}" if place else ""
        reason = error.message.removeprefix(f"{_VALUE} ")[:MAX_PROBLEM_CHARS]
        if isinstance(error.kind, ValidationErrorKind.Referencing):
            reason = f"a $ref cannot be resolved (external schemas are never fetched): {reason}"
        if isinstance(error.kind, ValidationErrorKind.Format) and error.kind.format == "regex":
            reason = "is not a valid pattern, or its repeat counts are too high"
        raise BrokenSchema(f"its inputSchema cannot be compiled{where}: {reason}") from None
    except ValueError as error:
        reason = str(error)[:MAX_PROBLEM_CHARS]
        raise BrokenSchema(f"its inputSchema cannot be compiled: {reason}") from None


def _located(problem: ValidationError, filled_in: Sequence[Path]) -> _Located:
    place = tuple(problem.instance_path)
    return _Located(problem, next((it for it in filled_in if place[: len(it)] == it), None))


def _text_of(located: _Located) -> str:
    problem, filled_in = located
    if filled_in is None:
        return _describe(problem)
    return (
        f"{_path(filled_in)}: is filled in by the gateway, and does not fit this tool's "
        "inputSchema; tell the user, or an operator"
    )


def _describe(problem: ValidationError, subject: str = _ARGUMENTS) -> str:
    match problem.kind:
        case ValidationErrorKind.AdditionalProperties(unexpected=names):
            rule = f"{_quoted(names)} not allowed here"
        case ValidationErrorKind.UnevaluatedProperties(unexpected=names):
            rule = f"{_quoted(names)} not allowed here"
        case ValidationErrorKind.Required(property=name):
            rule = f"{quote(name)} is missing"
        case ValidationErrorKind.FalseSchema():
            rule = "is not allowed here; leave it out"
        case ValidationErrorKind.PropertyNames():
            rule = "has a property whose name is not allowed; rename or remove it"
        case ValidationErrorKind.BacktrackLimitExceeded():
            rule = "is too long to be checked against its pattern; shorten it"
        case _:
            rule = problem.message.removeprefix(f"{_VALUE} ")[:MAX_PROBLEM_CHARS]
    return f"{_path(problem.instance_path, subject)}: {rule}"


def _quoted(names: list[str]) -> str:
    shown = join_first(names, quote, separator=", ", more=", …")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


def _path(path: Iterable[str | int], subject: str = _ARGUMENTS) -> str:
    return ".".join([subject, *(_part(part) for part in path)])


def _part(part: str | int) -> str:
    if isinstance(part, int) or part.isidentifier():
        return str(part)[:QUOTE_CHARS]
    return quote(part)


def _top_level_names(problem: ValidationError) -> list[str]:
    if problem.instance_path:
        return [str(problem.instance_path[0])[:QUOTE_CHARS]]
    match problem.kind:
        case ValidationErrorKind.Required(property=name):
            return [name[:QUOTE_CHARS]]
        case ValidationErrorKind.AdditionalProperties(unexpected=names):
            return [name[:QUOTE_CHARS] for name in names[:MAX_PROBLEMS]]
        case _:
            return []


MAX_DEPTH = 16
"""Levels of objects that receive defaults."""


def with_defaults(arguments: JsonObject, schema: JsonObject) -> JsonObject:
    """Return the arguments with the default of each missing required property.

    Includes the objects of declared properties. Returns ``arguments`` itself if complete.
    """
    return _filled(arguments, schema, MAX_DEPTH)


def _filled(value: JsonObject, schema: Mapping[str, Any], depth: int) -> JsonObject:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not depth:
        return value
    required = schema.get("required")
    added = {
        name: properties[name]["default"]
        for name in (required if isinstance(required, list | tuple) else ())
        if name not in value and _has_default(properties.get(name))
    }
    for name, part in value.items():
        inner = properties.get(name)
        if isinstance(part, dict) and isinstance(inner, Mapping):
            filled = _filled(part, inner, depth - 1)
            if filled is not part:
                added[name] = filled
    return {**value, **added} if added else value


def _has_default(schema: object) -> bool:
    return isinstance(schema, Mapping) and "default" in schema
