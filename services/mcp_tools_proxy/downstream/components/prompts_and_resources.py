"""Prompts, resources and resource templates of a downstream server, as components."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeGuard, cast

from pydantic_core import to_json

from mcp_tools_proxy.domain.bindings import Binding
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.caller_template import CallerTemplate
from mcp_tools_proxy.domain.components import (
    ComponentSpec,
    JsonObject,
    NamesNoDocument,
    PromptSpec,
    ResourceSpec,
    Result,
)
from mcp_tools_proxy.domain.errors import InvalidArguments, ProxyError, ResourceNotFound
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import Route
from mcp_tools_proxy.downstream.components.bound_arguments import BoundArguments
from mcp_tools_proxy.downstream.components.normalize import (
    normalise_prompt_result,
    normalise_resource_result,
)
from mcp_tools_proxy.downstream.components.remote_call import (
    RemoteCall,
    RemoteTarget,
    input_required,
    tool_failed_from,
)
from mcp_tools_proxy.downstream.offered_items import UriPattern
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession
from mcp_tools_proxy.wire.encoding import encodable
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.json_schema.bound_offers import bound_names
from mcp_tools_proxy.wire.problem_texts import join_first
from mcp_tools_proxy.wire.text import estimate_tokens, quote
from mcp_tools_proxy.wire.uris import is_normalized_path

MAX_NAMES = 20


@dataclass(frozen=True, slots=True)
class RemotePrompt(NamesNoDocument):
    """A prompt of a server. Fetching changes nothing, so the request can be repeated."""

    spec: PromptSpec
    target: RemoteTarget
    max_text_bytes: int
    bound: BoundArguments | None = None
    """Arguments that the gateway fills in; ``spec`` does not contain them."""

    @classmethod
    def build(cls, route: Route, session: ReconnectingSession, max_text_bytes: int) -> Self:
        """Build the prompt of a route."""
        listed = cast("list[Mapping[str, Any]]", route.descriptor.get("arguments") or [])
        spec = PromptSpec(
            name=route.name,
            server_id=route.server_id,
            as_mcp=route.shown,
            given_name=route.overrides.name,
            argument_names=frozenset(argument["name"] for argument in listed),
            exchanges_jwt=session.config.exchanges_jwt,
            required=frozenset(a["name"] for a in listed if a.get("required") is True),
        )
        return cls(spec, RemoteTarget(session, spec, route.name), max_text_bytes)

    def bound_to(self, bindings: Sequence[Binding]) -> "RemotePrompt":
        """Return the prompt with its arguments bound by the applicable bindings."""
        applied = bound_names(self.spec.as_mcp, bindings)
        if not applied:
            return self
        names = {binding.path[0] for binding in applied}
        listed = cast("list[Mapping[str, Any]]", self.spec.as_mcp["arguments"])
        shown = [argument for argument in listed if argument["name"] not in names]
        spec = replace(
            self.spec,
            as_mcp={**self.spec.as_mcp, "arguments": shown},
            argument_names=self.spec.argument_names - names,
            required=self.spec.required - names,
        )
        target = replace(self.target, spec=spec)
        return replace(self, spec=spec, target=target, bound=BoundArguments(_as_texts(applied)))

    def complete_arguments(self, call: Call) -> Call:
        """Return the call with the bound arguments. Raises InvalidArguments, IdentityRequired."""
        return call if self.bound is None else self.bound.complete(call)

    def parse(self, arguments: JsonObject) -> JsonObject:
        """Accept strings for declared arguments, and require all required ones.

        Raises InvalidArguments.
        """
        problems = [
            *(self._unknown(name) for name in arguments if name not in self._accepted),
            *(f"{quote(n)} is missing" for n in sorted(self.spec.required - arguments.keys())),
            *(f"{quote(n)} should be a string" for n in self._not_strings(arguments)),
        ]
        if problems:
            raise InvalidArguments(join_first(problems, str))
        return arguments

    @property
    def completion(self) -> "Completion":
        """The component that completes the prompt's arguments."""
        ref = {"type": "ref/prompt", "name": self.target.name}
        return Completion(self.spec, self.target, ref, self.bound)

    async def call(self, parsed: object, call: Call) -> Result:
        """Fetch the prompt with its arguments: ``messages``, ``description``?."""
        with RemoteCall(self.target, call) as remote:
            try:
                raw = await remote.send(
                    "prompts/get", {"name": self.target.name, "arguments": parsed}
                )
            except JsonRpcError as error:
                raise tool_failed_from(self._label, error) from None
            if input_required(raw):
                return remote.input_required_result(raw)
            result = normalise_prompt_result(raw, max_text_bytes=self.max_text_bytes)
            return remote.valid_result(result, self._label, "a prompt's messages")

    @property
    def _label(self) -> str:
        return f"prompt {quote(self.spec.name)}"

    @property
    def _accepted(self) -> frozenset[str]:
        names = self.spec.argument_names
        return names if self.bound is None else names.union(it.path[0] for it in self.bound)

    def _unknown(self, name: str) -> str:
        declared = ", ".join(quote(known) for known in sorted(self.spec.argument_names)[:MAX_NAMES])
        return (
            f"{quote(name)} is not an argument of {self._label}, which takes: {declared or 'none'}"
        )

    def _not_strings(self, arguments: JsonObject) -> list[str]:
        names = self._accepted
        return [n for n, value in arguments.items() if n in names and not isinstance(value, str)]


def _as_texts(bindings: Sequence[Binding]) -> Iterator[Binding]:
    """Yield the bindings with their values as texts, the only type of a prompt's arguments."""
    for binding in bindings:
        is_text = isinstance(binding.value, str | CallerTemplate)
        value = binding.value if is_text else to_json(binding.value).decode()
        yield Binding(path=binding.path, value=value)


APP_SCHEME = "ui://"
"""The scheme of MCP Apps: HTML pages, 235 kB to 1.3 MB on real servers."""

NOT_FOUND_CODES = frozenset({-32002, -32602})
"""The JSON-RPC codes for an unknown resource: before and since MCP 2026-07-28."""


@dataclass(frozen=True, slots=True)
class RemoteResource(NamesNoDocument):
    """A resource of a server at ``uri``; requests can be repeated."""

    spec: ResourceSpec
    target: RemoteTarget
    uri: str

    @classmethod
    def build(cls, route: Route, session: ReconnectingSession) -> Self:
        """Build the resource of a route."""
        spec = ResourceSpec(
            name=route.name,
            server_id=route.server_id,
            as_mcp=route.shown,
            exchanges_jwt=session.config.exchanges_jwt,
        )
        return cls(spec, RemoteTarget(session, spec, route.name), route.name)

    def parse(self, arguments: JsonObject) -> None:
        """Accept no arguments: the URI identifies the resource. Raises InvalidArguments."""
        if arguments:
            raise InvalidArguments("a resource takes a uri only; leave the other arguments out")

    async def call(self, parsed: object, call: Call) -> Result:
        """Read the resource. Raises ResourceNotFound, ToolFailed."""
        with RemoteCall(self.target, call) as remote:
            try:
                raw = await remote.send("resources/read", {"uri": self.uri})
            except JsonRpcError as error:
                raise self._error_from(error) from None
            if input_required(raw):
                return remote.input_required_result(raw)
            result = normalise_resource_result(raw)
            valid = remote.valid_result(result, self._label, "a resource's contents")
            if not self.uri.startswith(APP_SCHEME):
                return valid
            return replace(valid, max_bytes=self.target.session.config.max_app_bytes)

    async def subscribe(self, on_update: Callable[[], None], caller: Caller) -> Callable[[], None]:
        """Subscribe to the resource; all listeners of a session share one subscription.

        Returns the function that unsubscribes. Raises ProxyError.
        """
        session = self.target.session
        try:
            if session.lease is None:
                return await session.sender.subscribe(self.uri, on_update, caller.tenant_id)
            async with session.lease(caller, 0.0) as (own, _):
                return await own.sender.subscribe(self.uri, on_update, caller.tenant_id)
        except JsonRpcError as error:
            raise self._error_from(error) from None

    def _error_from(self, error: JsonRpcError) -> ProxyError:
        if error.code in NOT_FOUND_CODES:
            server_id = self.spec.server_id
            return ResourceNotFound(
                f"server {server_id} has no resource {quote(self.uri)}; list the resources to see "
                "which exist"
            )
        return tool_failed_from(self._label, error)

    @property
    def _label(self) -> str:
        return f"resource {quote(self.spec.name)}"


@dataclass(frozen=True, slots=True)
class RemoteTemplate:
    """A template of a server, which represents every URI that it matches."""

    resource: RemoteResource
    pattern: UriPattern

    @classmethod
    def build(cls, route: Route, session: ReconnectingSession) -> Self:
        """Build the template of a route; discovery has checked that the template parses."""
        resource = RemoteResource.build(route, session)
        return cls(resource, UriPattern(route.name))

    @property
    def spec(self) -> ResourceSpec:
        """Spec of the template."""
        return self.resource.spec

    @property
    def completion(self) -> "Completion":
        """The component that completes the template's variables."""
        ref = {"type": "ref/resource", "uri": self.resource.uri}
        return Completion(self.spec, self.resource.target, ref)

    def at(self, uri: str) -> RemoteResource | None:
        """Return the resource at ``uri``; None if the template does not match.

        A URI that is too long or contains ``..`` never matches: ``..`` could leave the template's
        folder.
        """
        if not self.pattern.matches(uri) or not is_normalized_path(uri):
            return None
        return replace(self.resource, uri=uri)


CAPABILITY = "completions"
MAX_VALUES = 100
"""MCP's limit of values in one answer."""


@dataclass(frozen=True, slots=True)
class Completion(NamesNoDocument):
    """Completion of an argument of the component that ``ref`` names; repeatable."""

    spec: ComponentSpec
    target: RemoteTarget
    ref: JsonObject
    bound: BoundArguments | None = None
    """The bound arguments, which cannot be completed; the server gets their values."""

    def complete_arguments(self, call: Call) -> Call:
        """Return the call with the bound arguments in its context of known arguments.

        Raises InvalidArguments, IdentityRequired.
        """
        if self.bound is None:
            return call
        parsed = self.parse(call.arguments)
        if any(binding.path[0] == parsed["argument"]["name"] for binding in self.bound):
            raise InvalidArguments("argument: is filled in by the gateway; complete another one")
        context = parsed.get("context", {})
        known = self.bound.filled(context.get("arguments", {}), call.caller)
        return replace(
            call,
            arguments={**parsed, "context": {**context, "arguments": known}},
            filled_in=tuple(("context", "arguments", *path) for path in self.bound.paths),
        )

    def parse(self, arguments: JsonObject) -> dict[str, Any]:
        """Accept ``{"argument": {"name", "value"}, "context"?: {"arguments"?: {…}}}``.

        Raises InvalidArguments.
        """
        argument, context = arguments.get("argument"), arguments.get("context")
        if not _are_texts(argument) or not {"name", "value"} <= argument.keys():
            raise InvalidArguments("argument should be an object with name and value, both strings")
        if context is None:
            return {"argument": argument}
        if not isinstance(context, Mapping) or not _are_texts(context.get("arguments", {})):
            raise InvalidArguments("context.arguments should be an object whose values are strings")
        return {"argument": argument, "context": context}

    async def call(self, parsed: Any, call: Call) -> Result:
        """Return ``completion``: ``values``, ``total``?, ``hasMore``?. Raises ToolFailed.

        ``values`` is empty if the server does not offer completion.
        """
        if not self.target.session.connection_state.offers(CAPABILITY):
            return Result(value={"completion": {"values": []}}, tokens=0)
        with RemoteCall(self.target, call) as remote:
            try:
                raw = await remote.send("completion/complete", {"ref": self.ref, **parsed})
            except JsonRpcError as error:
                raise tool_failed_from(self._label, error) from None
            if input_required(raw):
                return remote.input_required_result(raw)
            return remote.valid_result(_result_of(encodable(raw)), self._label, "a completion")

    @property
    def _label(self) -> str:
        return f"completing {quote(self.spec.name)}"


def _are_texts(value: object) -> TypeGuard[Mapping[str, str]]:
    return isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values())


def _result_of(raw: dict[str, Any]) -> Result | None:
    completion = raw.get("completion")
    if not isinstance(completion, dict):
        return None
    values = completion.get("values")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return None
    if len(values) > MAX_VALUES:
        completion = {**completion, "values": values[:MAX_VALUES], "hasMore": True}
    value = {"completion": completion}
    if isinstance(raw.get("_meta"), dict):
        value["meta"] = raw["_meta"]
    return Result(value=value, tokens=estimate_tokens(sum(map(len, values[:MAX_VALUES]))))
