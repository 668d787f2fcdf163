"""A prompt of a downstream server, as a component."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.caller_template import CallerTemplate
from mcp_tools_proxy.domain.components import JsonObject, NamesNoDocument, PromptSpec, Result
from mcp_tools_proxy.domain.errors import InvalidArguments
from mcp_tools_proxy.domain.offers.bindings import Binding
from mcp_tools_proxy.domain.offers.view import Route
from mcp_tools_proxy.downstream.components.bound_arguments import BoundArguments
from mcp_tools_proxy.downstream.components.completion import Completion
from mcp_tools_proxy.downstream.components.normalize import normalise_prompt_result
from mcp_tools_proxy.downstream.components.remote_call import (
    RemoteCall,
    RemoteTarget,
    input_required,
    tool_failed_from,
)
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession
from mcp_tools_proxy.json_schema.bound_offers import bound_names
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.problem_texts import join_first
from mcp_tools_proxy.wire.text import quote

MAX_NAMES = 20
"""How many names of declared arguments an error message lists."""


@dataclass(frozen=True, slots=True)
class RemotePrompt(NamesNoDocument):
    """Fetches one prompt of one server. Fetching has no effect, so the request may be repeated."""

    spec: PromptSpec
    target: RemoteTarget
    max_text_bytes: int
    bound: BoundArguments | None = None
    """The arguments that are filled in; ``spec`` does not show them."""

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
        """Return the prompt with those of its arguments bound that there are bindings for."""
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
        """Accept strings for declared arguments; all required ones must be present.

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
    def completion(self) -> Completion:
        """The component that completes the prompt's arguments."""
        ref = {"type": "ref/prompt", "name": self.target.name}
        return Completion(self.spec, self.target, ref, self.bound)

    async def call(self, parsed: object, call: Call) -> Result:
        """Fetch the prompt with its arguments filled in: ``messages``, ``description``?."""
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
        """The names of the arguments, those that are filled in included."""
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
    """Yield the bindings with their values as texts, which all arguments of prompts are."""
    for binding in bindings:
        is_text = isinstance(binding.value, str | CallerTemplate)
        value = binding.value if is_text else to_json(binding.value).decode()
        yield Binding(path=binding.path, value=value)
