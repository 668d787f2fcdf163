"""The active rules of limits.json: the last good version, and what is odd about them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mcp_tools_proxy.config.build import duplicate_names
from mcp_tools_proxy.config.json_file import (
    Location,
    json_path,
    limit_problems,
    problem_of_error,
)
from mcp_tools_proxy.config.last_good import load_or_keep_last_good
from mcp_tools_proxy.config.limits_file import LimitsFile, RuleEntry, RuleMatch
from mcp_tools_proxy.config.loader import read_if_there
from mcp_tools_proxy.config.unknown_keys import Oddity, group_oddities
from mcp_tools_proxy.domain.audit.rule_source import RuleSource
from mcp_tools_proxy.domain.budget import CallField, LimitRule, LimitRules
from mcp_tools_proxy.domain.configuration import Agents, Configuration, InvalidConfig, Problem
from mcp_tools_proxy.wire.identifiers import server_id_of, with_server_id
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

LIMITS_FILE = "limits.json"

NO_LIMITS = LimitRules()
"""The object that ``load_limits`` returns without a limits.json: compare with ``is``."""

_NO_CALL_IS_TAKEN = Problem(
    file=LIMITS_FILE, path="$", message="until it is fixed, all calls are refused"
)

_KEYS_AT_DEPTH: dict[int, type[BaseModel]] = {1: LimitsFile, 3: RuleEntry, 4: RuleMatch}
"""The model of the object that has a key, by how deep the key is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveLimits:
    """The active rules, and the problems of the present file."""

    rules: LimitRules | None = None
    """None until limits.json was read for the first time or found to be absent."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def load_active_limits(
    folder: Path,
    before: ActiveLimits,
    configuration: Configuration | None,
    agents: Agents | None,
) -> ActiveLimits:
    """Load limits.json, and return the state that follows ``before``. Blocks.

    ``configuration`` and ``agents`` are those in force, None while they could never be loaded.
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
    """Load limits.json; ``NO_LIMITS`` if there is none, which is normal.

    Raises InvalidConfig, also if two rules have the same name.
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
    return LimitRules(rules=tuple(_rule(*numbered) for numbered in enumerate(file.rules)))


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
    """Yield the servers and agents of rules that do not exist, so that no call has them."""
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
