"""Screens the arguments and results of calls by the guards that are on (contract §1).

The one place on the path of a call: all entries, all kinds of component. Where no guard is on, a
call does not come here.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.client import NULL_CLIENT, Client, ClientRequestFailed
from mcp_tools_proxy.domain.components import Component, ComponentSpec, JsonObject, Result
from mcp_tools_proxy.domain.errors import MAY_BE_DONE, GuardRefused, ProxyError, ToolFailed
from mcp_tools_proxy.domain.guards import GuardFinding, GuardPlace
from mcp_tools_proxy.domain.outcome import Ok, Outcome
from mcp_tools_proxy.json_schema.validator import CostlyCheck
from mcp_tools_proxy.policy.guards.guard_set import GuardSet
from mcp_tools_proxy.policy.guards.known_hosts import hosts_of_arguments
from mcp_tools_proxy.policy.guards.screen import Screen, Screened, Steps
from mcp_tools_proxy.wire.mcp_protocol import INVALID_REQUEST
from mcp_tools_proxy.wire.tracing import GUARDS_KEY

SLICE_S = 0.004
"""How long a value is searched in one turn of the event loop; then other calls have theirs."""


async def screen(steps: Steps) -> Screened:
    """Screen a value; other calls go on meanwhile."""
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
    """Call a component, with arguments and result screened; add to ``found``.

    Raises GuardRefused, and what the component raises: the text of an error is the server's.
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
        except CostlyCheck as costly:  # what the caller sent was checked in a process before
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
    """The client of a call, to which what the server sends during the call comes screened.

    Progress and log messages that are refused are dropped; a request to the client (sampling,
    elicitation, roots) fails at the server. The client's answers are not screened: they are what a
    person or a model of the client's side says to the server.
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
        """Send a notification as guards leave it; drop one that they refuse."""
        screened = await self._screen(params)
        if screened.refused_by is None:
            await self._client.notify(method, cast("JsonObject", screened.value))

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Send a request as guards leave it. Raises ClientRequestFailed."""
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
    """Screen an outcome that was kept: a guard may have been turned on since.

    Raises GuardRefused.
    """
    if not isinstance(outcome, Ok) or not outcome.replayed:
        return outcome
    own = guards.for_calls(outcome.spec.server_id, call.caller.agent)
    if own is None:
        return outcome
    hosts = hosts_of_arguments(call.arguments)
    value = await _screened_result(own, outcome.spec, outcome.result, hosts, found)
    if value is outcome.result:  # what was found at first is noted in it
        return outcome
    return replace(outcome, result=value, result_json=to_json(value))


async def screen_arguments(
    own: Screen, spec: ComponentSpec, call: Call, found: list[GuardFinding]
) -> Call:
    """Return the call with its arguments as guards leave them. Raises GuardRefused.

    What the gateway filled in is an operator's, or an identity: it is not screened.
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
        if left["details"] is not details:  # the message may quote a cut part of what was removed
            error.message = f"{spec.name} failed; a guard removed parts of its answer"
        error.details = with_findings(cast("JsonObject", left["details"]), found)
    return error


def with_findings(value: JsonObject, found: Iterable[GuardFinding]) -> JsonObject:
    """Return a result with what was found of the call in its ``meta``."""
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
    """Yield the containers of the values at these paths, with their keys there."""
    for path in paths:
        container: object = arguments
        for step in path[:-1]:
            container = container.get(step) if isinstance(container, Mapping) else None
        yield id(container), path[-1]


_MEDIA = ("image", "audio")


def _data(value: JsonObject) -> Iterator[tuple[int, str | int]]:
    """Yield the base64 data of a result: of images and sounds, and of resources."""
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
