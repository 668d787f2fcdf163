"""Completes an argument of a prompt, or a variable of a resource template, as a component."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import ComponentSpec, JsonObject, NamesNoDocument, Result
from mcp_tools_proxy.domain.errors import InvalidArguments
from mcp_tools_proxy.downstream.components.bound_arguments import BoundArguments
from mcp_tools_proxy.downstream.components.remote_call import (
    RemoteCall,
    RemoteTarget,
    input_required,
    tool_failed_from,
)
from mcp_tools_proxy.wire.encodable import encodable
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.text import estimate_tokens, quote

CAPABILITY = "completions"
MAX_VALUES = 100
"""MCP's limit of values in one answer."""


@dataclass(frozen=True, slots=True)
class Completion(NamesNoDocument):
    """Has a server complete an argument of the component that ``ref`` names; repeatable."""

    spec: ComponentSpec
    target: RemoteTarget
    ref: JsonObject
    """MCP's reference to the component, by the server's own name."""
    bound: BoundArguments | None = None
    """The arguments that are filled in: none of them is completed, and the server gets them."""

    def complete_arguments(self, call: Call) -> Call:
        """Return the call with the bound arguments among those that are known already.

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

        There are no values if the server does not offer completion.
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
