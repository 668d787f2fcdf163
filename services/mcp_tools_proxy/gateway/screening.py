"""Screens calls and definitions with the configured guards (contract §1).

``screened_call`` screens calls if guards are active. Definitions are screened when a registry is
built.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import cast

from pydantic_core import to_json

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.agents import NO_AGENTS
from mcp_tools_proxy.config.json_file import json_path
from mcp_tools_proxy.config.loader import CONFIGURATION_FILE, NO_FILE
from mcp_tools_proxy.config.preset_files import preset_file
from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.bindings import Overrides
from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.client import NULL_CLIENT, Client, ClientRequestFailed
from mcp_tools_proxy.domain.components import Component, ComponentSpec, JsonObject, Result
from mcp_tools_proxy.domain.configuration import Preset
from mcp_tools_proxy.domain.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.errors import MAY_BE_DONE, GuardRefused, ProxyError, ToolFailed
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.guards import (
    GuardAction,
    GuardActions,
    GuardFinding,
    GuardName,
    GuardPlace,
    GuardRule,
    GuardRules,
)
from mcp_tools_proxy.domain.offers import Route, View
from mcp_tools_proxy.domain.outcome import Ok, Outcome
from mcp_tools_proxy.policy.definitions.canonical import canonical_json
from mcp_tools_proxy.policy.definitions.comparison import Findings
from mcp_tools_proxy.policy.guards.known_hosts import hosts_in, hosts_of_arguments, hosts_of_server
from mcp_tools_proxy.policy.guards.screen import GuardSet, Screen, Screened, Steps, run_at_once
from mcp_tools_proxy.wire.json_schema.validator import CostlyCheck
from mcp_tools_proxy.wire.mcp_protocol import INVALID_REQUEST
from mcp_tools_proxy.wire.tracing import GUARDS_KEY

SLICE_S = 0.004
"""Seconds of screening per turn of the event loop."""


async def screen(steps: Steps) -> Screened:
    """Screen a value in slices, so that other calls continue."""
    sent: object = None
    until = time.perf_counter() + SLICE_S
    while True:
        try:
            work = steps.send(sent)
        except StopIteration as done:
            screened: Screened = done.value
            return screened
        if work is not None:
            sent = await asyncio.to_thread(work)
            until = time.perf_counter() + SLICE_S
            continue
        sent = None
        if time.perf_counter() > until:
            await asyncio.sleep(0)
            until = time.perf_counter() + SLICE_S


async def screened_call(
    guards: GuardSet, component: Component, parsed: object, call: Call, found: list[GuardFinding]
) -> Result:
    """Call a component with screened arguments and result; append to ``found``.

    Raises GuardRefused and the errors of the component, whose texts are screened.
    """
    spec = component.spec
    own = guards.for_calls(spec.server_id, call.caller.agent)
    if own is None:
        return await component.call(parsed, call)
    screened = await screen_arguments(own, spec, call, found)
    if screened is not call:
        call = screened
        try:
            parsed = component.parse(call.arguments)
        except CostlyCheck as costly:  # the caller's arguments were checked in a process before
            parsed = costly.arguments
    hosts = hosts_of_arguments(call.arguments)
    if call.client is not NULL_CLIENT:
        call = replace(call, client=_ScreenedClient(call.client, own, hosts, found))
    try:
        result = await component.call(parsed, call)
    except ProxyError as error:
        raise await _screened_error(own, spec, error, hosts, found) from None
    return replace(result, value=await _screened_result(own, spec, result.value, hosts, found))


class _ScreenedClient:
    """The client of a call, which receives screened messages of the server.

    Refused progress and log messages are dropped; a refused request to the client (sampling,
    elicitation, roots) fails at the server. The client's responses are not screened.
    """

    def __init__(
        self, client: Client, own: Screen, hosts: Collection[str], found: list[GuardFinding]
    ) -> None:
        self.capabilities = client.capabilities
        self.wants_progress = client.wants_progress
        self.log_level = client.log_level
        self.supports_input_required = client.supports_input_required
        self._client = client
        self._own = own
        self._hosts = hosts
        self._found = found

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Send a screened notification; drop it if a guard refuses it."""
        screened = await self._screen(params)
        if screened.refused_by is None:
            await self._client.notify(method, cast("JsonObject", screened.value))

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Send a screened request. Raises ClientRequestFailed."""
        screened = await self._screen(params)
        if screened.refused_by is not None:
            raise ClientRequestFailed(
                INVALID_REQUEST, "a guard of the gateway refuses this request"
            )
        return await self._client.request(method, cast("JsonObject", screened.value))

    async def _screen(self, params: Mapping[str, object]) -> Screened:
        steps = self._own.steps(params, GuardPlace.RESULT, hosts=self._hosts)
        screened = await screen(steps)
        self._found += screened.findings
        return screened


async def screened_replay(
    guards: GuardSet, call: Call, outcome: Outcome, found: list[GuardFinding]
) -> Outcome:
    """Screen a stored outcome, because a guard may have been activated since.

    Raises GuardRefused.
    """
    if not isinstance(outcome, Ok) or not outcome.replayed:
        return outcome
    own = guards.for_calls(outcome.spec.server_id, call.caller.agent)
    if own is None:
        return outcome
    hosts = hosts_of_arguments(call.arguments)
    value = await _screened_result(own, outcome.spec, outcome.result, hosts, found)
    if value is outcome.result:  # its first findings are already included
        return outcome
    return replace(outcome, result=value, result_json=to_json(value))


async def screen_arguments(
    own: Screen, spec: ComponentSpec, call: Call, found: list[GuardFinding]
) -> Call:
    """Return the call with screened arguments. Raises GuardRefused.

    Arguments completed by the gateway are an operator's or an identity, and are not screened.
    """
    without = frozenset(_places(call.arguments, call.filled_in))
    screened = await screen(own.steps(call.arguments, GuardPlace.ARGUMENTS, without=without))
    found += screened.findings
    if screened.refused_by is not None:
        error = _refusal(spec, screened)
        error.nothing_ran = True
        raise error
    if screened.value is call.arguments:
        return call
    return replace(call, arguments=cast("JsonObject", screened.value))


async def _screened_result(
    own: Screen,
    spec: ComponentSpec,
    value: JsonObject,
    hosts: Collection[str],
    found: list[GuardFinding],
) -> JsonObject:
    steps = own.steps(value, GuardPlace.RESULT, hosts=hosts, without=frozenset(_data(value)))
    screened = await screen(steps)
    found += screened.findings
    if screened.refused_by is not None:
        raise _refusal(spec, screened)
    return with_findings(cast("JsonObject", screened.value), found)


async def _screened_error(
    own: Screen,
    spec: ComponentSpec,
    error: ProxyError,
    hosts: Collection[str],
    found: list[GuardFinding],
) -> ProxyError:
    details = error.details or {}
    quoted = error.quoted if isinstance(error, ToolFailed) else None
    text = error.message if quoted is None else quoted.text
    value = {"message": text, "details": details}
    without = frozenset(_data(details))
    screened = await screen(own.steps(value, GuardPlace.RESULT, hosts=hosts, without=without))
    found += screened.findings
    if screened.refused_by is not None:
        return _refusal(spec, screened)
    if screened.findings:
        left = cast("Mapping[str, object]", screened.value)
        if left["message"] != text:
            words = str(left["message"])
            error.message = words if quoted is None else quoted.message_of(words)
        if left["details"] is not details:  # the message may quote a part of the removed text
            error.message = f"{spec.name} failed; a guard removed parts of its answer"
        error.details = with_findings(cast("JsonObject", left["details"]), found)
    return error


def with_findings(value: JsonObject, found: Iterable[GuardFinding]) -> JsonObject:
    """Return a result with the findings of its call in ``meta``."""
    findings = [it.as_json for it in found]
    if not findings:
        return value
    key = "_meta" if "inputRequests" in value or "requestState" in value else "meta"
    meta = cast("JsonObject", value.get(key) or {})
    return {**value, key: {**meta, GUARDS_KEY: {"findings": findings}}}


def _refusal(spec: ComponentSpec, screened: Screened) -> GuardRefused:
    rule = screened.refused_by
    refusing = next(it for it in screened.findings if rule is not None and it.action is rule.action)
    where = refusing.place.value
    what = f"the guard {refusing.guard.value} found {refusing.kind} in the {where} of {spec.name}"
    if refusing.place is GuardPlace.ARGUMENTS:
        message = f"{what}, so the call was not made; remove it, or tell the user"
    else:
        message = f"{what}, so it is not shown; use another tool, or tell the user"
        if not spec.idempotent:
            message = f"{message}; {MAY_BE_DONE}"
    error = GuardRefused(message, details={"findings": [it.as_json for it in screened.findings]})
    error.rule = None if rule is None else rule.source
    return error


def _places(
    arguments: JsonObject, paths: Iterable[tuple[str, ...]]
) -> Iterator[tuple[int, str | int]]:
    """Yield the containers of the values at these paths, with their keys."""
    for path in paths:
        container: object = arguments
        for step in path[:-1]:
            container = container.get(step) if isinstance(container, Mapping) else None
        yield id(container), path[-1]


_MEDIA = ("image", "audio")


def _data(value: JsonObject) -> Iterator[tuple[int, str | int]]:
    """Yield the base64 data of images, audio and resources in a result."""
    for block in _blocks(value):
        if block.get("type") in _MEDIA:
            yield id(block), "data"
        resource = block.get("resource")
        if block.get("type") == "resource" and isinstance(resource, Mapping):
            yield id(resource), "blob"
    contents = value.get("contents")
    for content in contents if isinstance(contents, list) else ():
        if isinstance(content, Mapping):
            yield id(content), "blob"


def _blocks(value: JsonObject) -> Iterator[JsonObject]:
    for key in ("content", "messages"):
        items = value.get(key)
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, Mapping):
                continue
            yield item
            content = item.get("content") if key == "messages" else None
            for one in content if isinstance(content, list) else (content,):
                if isinstance(one, Mapping):
                    yield one


def guard_set_of(config: ActiveConfig) -> GuardSet | None:
    """Return the guards of a configuration, which know the hosts of its servers, or None."""
    configuration = config.configuration or NO_FILE
    by_server = configuration.guards
    presets = config.agent_policies.presets
    by_agent = {
        name: compiled.loaded.preset
        for name, profile in (config.agents or NO_AGENTS).profiles.items()
        if (compiled := presets.get(profile.preset_id or "")) and compiled.loaded.preset.guards
    }
    if not (by_server or config.preset.guards or by_agent):
        return None
    return GuardSet(
        preset=_of_preset(config.preset),
        by_server={
            server_id: _rules(
                actions,
                CONFIGURATION_FILE,
                ("mcpServers", configuration.key_of(server_id), "guards"),
            )
            for server_id, actions in by_server.items()
        },
        by_agent={name: _of_preset(preset) for name, preset in by_agent.items()},
        hosts={server_id: hosts_of_server(server) for server_id, server in config.servers.items()},
    )


def with_shown_hosts(guards: GuardSet, view: View) -> GuardSet:
    """Return the guards with the hosts in shown definitions, which results may link to."""
    rules = (guards.preset, *guards.by_server.values(), *guards.by_agent.values())
    if not any(name in one for one in rules for name in (GuardName.IMAGES, GuardName.LINKS)):
        return guards
    hosts = {server_id: set(known) for server_id, known in guards.hosts.items()}
    for route in _routes(view):
        hosts.setdefault(route.server_id, set()).update(hosts_in(canonical_json(route.shown)))
    return replace(guards, hosts={it: frozenset(known) for it, known in hosts.items()})


def _routes(view: View) -> Iterable[Route]:
    routed = (view.prompts, view.resources, view.templates)
    return chain(view.tools.values(), *(chain(*routes.values()) for routes in routed))


def _of_preset(preset: Preset) -> GuardRules:
    return _rules(preset.guards, preset_file(preset.preset_id), ("guards",))


def _rules(
    actions: GuardActions, file: str, place: tuple[str, ...]
) -> Mapping[GuardName, GuardRule]:
    return {
        name: GuardRule(action, RuleSource(file, json_path((*place, name.value))))
        for name, action in actions.items()
    }


_PROSE = ("description", "title")
_PROSE_OF_SERVER = ("instructions",)
"""Texts for people and models. Redacting part of another text, such as a name or a default, changes
its meaning, so the item is hidden instead.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenedDefinition:
    """Findings of guards in a definition, and the redacted definition."""

    findings: tuple[GuardFinding, ...] = ()
    hidden_by: RuleSource | None = None
    redacted: JsonObject | None = None
    """Replacement for the server's descriptor."""


class DefinitionScreening:
    """Screens definitions; each descriptor once per set of guards.

    Results that one round does not use are dropped after the next.
    """

    def __init__(self, known: "_Known | None" = None) -> None:
        self._before: _Known = {}
        self.known: _Known = dict(known or {})
        """Results by the descriptor's identity and the guards."""

    def copy(self) -> "DefinitionScreening":
        """Return a copy for use in a thread."""
        return DefinitionScreening(self.known)

    def add(self, other: "DefinitionScreening") -> None:
        """Add the results of another screening."""
        self.known |= other.known

    def with_guards(
        self,
        findings: Findings,
        shown: Sequence[tuple[DefinitionKey, JsonObject]],
        config: ActiveConfig,
    ) -> Findings:
        """Add the guards' findings in the ``shown`` definitions."""
        guards = guard_set_of(config)
        if guards is None:
            return findings
        self._before, self.known = self.known, {}
        overridden = _overridden(config)
        screened: dict[DefinitionKey, ScreenedDefinition] = {}
        for key, descriptor in shown:
            screen = guards.for_definitions(key.server_id)
            if screen is not None:
                own = overridden.get((key.kind.item_kind, key.server_id, key.name))
                screened[key] = self._screened(screen, key.kind, descriptor, own)
        return replace(
            findings,
            items=tuple(
                it
                if (found := screened.get(it.key)) is None or not found.findings
                else replace(it, guards=found.findings, hidden_by=found.hidden_by)
                for it in findings.items
            ),
            redacted={
                key: found.redacted for key, found in screened.items() if found.redacted is not None
            },
        )

    def _screened(
        self,
        screen: Screen,
        kind: DefinitionKind,
        descriptor: JsonObject,
        overrides: Overrides | None,
    ) -> ScreenedDefinition:
        replaced = () if overrides is None else tuple(_replaced_fields(overrides))
        key = (id(descriptor), replaced, tuple(screen.rules.items()), screen.hosts)
        found = self.known.get(key) or self._before.get(key)
        if found is None:  # keeping the descriptor prevents reuse of its id
            found = (descriptor, _screen_definition(screen, kind, descriptor, replaced))
        self.known[key] = found
        return found[1]


_CacheKey = tuple[object, ...]
_Known = dict[_CacheKey, tuple[JsonObject, ScreenedDefinition]]


def _screen_definition(
    screen: Screen, kind: DefinitionKind, descriptor: JsonObject, replaced: Iterable[str]
) -> ScreenedDefinition:
    """Screen a descriptor without the fields that the preset replaces."""
    without = frozenset((id(descriptor), field) for field in replaced)
    screened = run_at_once(screen.steps(descriptor, GuardPlace.DEFINITION, without=without))
    hidden_by = None if screened.refused_by is None else screened.refused_by.source
    redacted = None
    if screened.value is not descriptor and isinstance(screened.value, Mapping):
        prose = _PROSE_OF_SERVER if kind is DefinitionKind.INSTRUCTIONS else _PROSE
        if _differs_in_prose_only(descriptor, screened.value, prose):
            redacted = screened.value
        else:
            hidden_by = _redacting_rule(screen, screened.findings)
    return ScreenedDefinition(findings=screened.findings, hidden_by=hidden_by, redacted=redacted)


def _redacting_rule(screen: Screen, findings: Iterable[GuardFinding]) -> RuleSource:
    redacting = (it.guard for it in findings if it.action is GuardAction.REDACT)
    return screen.rules[next(redacting)].source


def _differs_in_prose_only(
    before: object, after: object, prose: Collection[str], key: object = None
) -> bool:
    if before is after:
        return True
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return list(before) == list(after) and all(
            _differs_in_prose_only(before[it], after[it], prose, it) for it in before
        )
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        pairs = zip(before, after, strict=False)
        return all(_differs_in_prose_only(old, new, prose) for old, new in pairs)
    return key in prose and isinstance(before, str)


def _replaced_fields(overrides: Overrides) -> Iterator[str]:
    if overrides.title is not None:
        yield "title"
    if overrides.description is not None:
        yield "description"


def _overridden(config: ActiveConfig) -> Mapping[tuple[Kind | None, str, str], Overrides]:
    return {
        (kind, reference.server_id, reference.name): reference.overrides
        for kind, reference in config.preset.overridden
    }
