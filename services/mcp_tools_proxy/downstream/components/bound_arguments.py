"""Bound arguments: filled in, and protected from contradicting calls."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from mcp_tools_proxy.domain.bindings import Binding, Path
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.caller_template import CallerTemplate
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.errors import InvalidArguments
from mcp_tools_proxy.wire.text import QUOTE_CHARS, quote


class BoundArguments:
    """The arguments of one tool or prompt that callers cannot choose."""

    __slots__ = ("_bindings", "paths")

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self._bindings = tuple(bindings)
        self.paths: tuple[Path, ...] = tuple(it.path for it in self._bindings)

    def __iter__(self) -> Iterator[Binding]:
        return iter(self._bindings)

    def complete(self, call: Call) -> Call:
        """Return the call with its bound arguments.

        Raises InvalidArguments if the call has another value for one, and IdentityRequired.
        """
        arguments = self.filled(call.arguments, call.caller)
        return replace(call, arguments=arguments, filled_in=self.paths)

    def filled(self, arguments: JsonObject, caller: Caller) -> JsonObject:
        """Return the arguments with those that are bound for a caller; raises as ``complete``."""
        for binding in self._bindings:
            arguments = _with(arguments, binding, 0, value_for(binding, caller))
        return arguments


def value_for(binding: Binding, caller: Caller) -> object:
    """Return the bound value. Raises IdentityRequired."""
    value = binding.value
    if not isinstance(value, CallerTemplate):
        return value
    return value.fill(caller, encode=str, segment=str, read_secret=_no_secret)


def _no_secret(_path: str) -> None:
    """Return None: bound arguments never contain secrets, which servers could show to models."""


def _with(node: JsonObject, binding: Binding, depth: int, value: object) -> JsonObject:
    name = binding.path[depth]
    if depth == len(binding.path) - 1:
        if name in node and not _is_same(node[name], value):
            raise _refusal(binding)
        return {**node, name: value}
    inner = node.get(name, {})
    if not isinstance(inner, Mapping):
        raise _refusal(binding)
    return {**node, name: _with(inner, binding, depth + 1, value)}


def _refusal(binding: Binding) -> InvalidArguments:
    return InvalidArguments(
        f"{quote(binding.text)} is filled in by the gateway, with another value; leave it out",
        details={"arguments": [binding.path[0][:QUOTE_CHARS]]},
    )


def _is_same(one: object, other: object) -> bool:
    """Return whether two JSON values are equal; in Python ``True == 1``."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other
