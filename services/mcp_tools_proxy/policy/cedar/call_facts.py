"""The request, context and entities that Cedar receives for a call.

Arguments are built typed. Raw JSON is never passed: Cedar takes ``{"__entity": …}`` for an entity,
and decides nothing about a context with a float, null, or an integer over 64 bits.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import chain

import cedarpy

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.components import DOCUMENT_ARGUMENT, JsonObject
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.run import CHANGING_LABELS, MAX_TASK_CHARS
from mcp_tools_proxy.policy.cedar.condition_facts import Path
from mcp_tools_proxy.policy.cedar.fact_schema import ArgumentType, PolicyAction
from mcp_tools_proxy.policy.runs.run_memory import MAX_INTEGER, TEXT, RunMemory
from mcp_tools_proxy.policy.runs.values import embedded_values, normal_text
from mcp_tools_proxy.wire.text import quote

_MIN_INTEGER = -(2**63)
_DECIMAL_STEPS = Decimal(10_000)
"""Cedar's decimals are 64-bit integers of ten-thousandths."""

MAX_VALUES = 2_000
MAX_CHARS = 65_536
"""Maximum values of a fact, and their characters: 100,000 values took two seconds."""


class FactUnavailable(Exception):
    """A fact that a policy reads cannot be given to Cedar: the call is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCall:
    """A call as policies see it; ``arguments`` are the final ones.

    ``now`` is in the time zone of the policies' clock.
    """

    caller: Caller
    entry: str
    action: PolicyAction
    arguments: JsonObject
    now: datetime
    embedded: tuple[str, ...] | None = None
    """The links, addresses and account numbers in arguments that are not targets, and in names of
    arguments that the schema does not declare; None until they are searched for. Of tools that only
    read, those in all arguments: fetching a page sends its URL."""

    def with_embedded(self) -> "PolicyCall":
        """Find links, addresses and account numbers; takes about a second for 100 MB."""
        changes = not CHANGING_LABELS.isdisjoint(self.action.labels.labels)
        names = self.arguments.keys() - (self.target_names if changes else frozenset())
        found = (it for name in names for it in _values(self, name))
        unknown_names = self.arguments.keys() - self.action.keys
        return replace(self, embedded=tuple(embedded_values(chain(found, unknown_names))))

    @property
    def target_names(self) -> frozenset[str]:
        """The arguments that say where data goes."""
        targets = self.action.labels.targets
        return frozenset(self.arguments) if targets is None else targets


def request_of(call: PolicyCall, memory: RunMemory | None, paths: Collection[Path]) -> JsonObject:
    """Return the request with the facts at ``paths``. Raises FactUnavailable."""
    if paths:
        _check_names(call)
    resource_type, resource_id = _resource(call)
    context: dict[str, object] = {}
    for path in paths:
        _add(context, path, call, memory)
    return {
        "principal": {"type": "User", "id": call.caller.user_id},
        "action": {"type": "Action", "id": call.action.name},
        "resource": {"type": resource_type, "id": resource_id},
        "context": context,
    }


def _check_names(call: PolicyCall) -> None:
    """Refuse ``To`` beside a declared ``to``: Go's servers read either, and take the last one."""
    if call.arguments.keys() <= call.action.keys:
        return
    known = set(map(normal_text, call.action.keys))
    for name in call.arguments.keys() - call.action.keys:
        if normal_text(name) in known:
            raise FactUnavailable(f"{quote(name)} is a declared argument in other letters")


def entities_of(call: PolicyCall) -> cedarpy.Entities:
    """Return the user with tenant, roles and agent, the resource, and the action's groups.

    Raises ValueError for names that Cedar does not accept.
    """
    caller, action = call.caller, call.action
    parents = [("Tenant", caller.tenant_id), *(("Role", it) for it in caller.roles)]
    if caller.agent is not None:
        parents.append(("Agent", caller.agent))
    return _entities(
        caller.user_id, tuple(parents), _resource(call), action.server, action.name, action.groups
    )


@lru_cache(maxsize=1_024)
def _entities(
    user_id: str,
    parents: tuple[tuple[str, str], ...],
    resource: tuple[str, str],
    server: str,
    action: str,
    groups: tuple[str, ...],
) -> cedarpy.Entities:
    """Parse entities; a cached one saves a fifth of a decision's CPU."""
    resource_type, resource_id = resource
    above = [("Server", server)] if resource_type == "Document" else []
    return cedarpy.Entities.from_json_str(
        json.dumps(
            [
                _entity("User", user_id, parents),
                _entity(resource_type, resource_id, above),
                _entity("Action", action, [("Action", it) for it in groups]),
            ]
        )
    )


def _entity(kind: str, name: str, parents: Iterable[tuple[str, str]]) -> JsonObject:
    above = [{"type": of, "id": it} for of, it in parents]
    return {"uid": {"type": kind, "id": name}, "attrs": {}, "parents": above}


def _resource(call: PolicyCall) -> tuple[str, str]:
    if call.action.documents:
        document = call.arguments.get(DOCUMENT_ARGUMENT)
        if isinstance(document, str):
            return "Document", document
    return "Server", call.action.server


def _add(
    context: dict[str, object], path: Path, call: PolicyCall, memory: RunMemory | None
) -> None:
    """Add one fact, with the records above it."""
    match path:
        case ("entry",):
            context["entry"] = call.entry
        case ("target",):
            found = (it for name in call.target_names for it in _values(call, name))
            context["target"] = _origins(found, memory)
        case ("embedded",):
            known = call if call.embedded is not None else call.with_embedded()
            context["embedded"] = _origins(known.embedded or (), memory)
        case ("run", *rest):
            if memory is not None:
                _add_run(_record(context, "run"), rest, memory)
        case (("clock" | "origin" | "args") as name, *rest):
            record = _record(context, name)
            for it in rest[:1]:
                _add_attribute(record, name, it, call, memory)


def _add_attribute(
    record: dict[str, object], of: str, name: str, call: PolicyCall, memory: RunMemory | None
) -> None:
    if of == "clock":
        record[name] = _clock(call.now, name)
    elif of == "origin":
        record[name] = _origins(_values(call, name), memory)
    elif (value := call.arguments.get(name)) is not None:
        record[name] = _argument(call.action, name, value)


def _record(above: dict[str, object], name: str) -> dict[str, object]:
    found = above.setdefault(name, {})
    if not isinstance(found, dict):
        raise FactUnavailable(f"{quote(name)} is not a record")
    return found


def _add_run(run: dict[str, object], path: list[str], memory: RunMemory) -> None:
    match path:
        case ["calls" | "errors" | "repeats" | "tokens" as name]:
            run[name] = min(MAX_INTEGER, int(getattr(memory, name)))
        case ["read_only" | "undeclared" as name]:
            run[name] = getattr(memory, name)
        case ["seen"]:
            run["seen"] = list(memory.seen)
        case ["called" | "succeeded" | "total" as name, *rest]:
            counts = _record(run, name)
            known = memory.totals if name == "total" else getattr(memory, name)
            for it in rest[:1]:
                counts[it] = min(MAX_INTEGER, known.get(it, 0))


def _clock(now: datetime, name: str) -> object:
    match name:
        case "hour":
            return now.hour
        case "weekday":
            return now.isoweekday()
        case _:
            at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            return {"__extn": {"fn": "datetime", "arg": at}}


def _values(call: PolicyCall, name: str) -> Iterator[object]:
    """Yield the texts and numbers in an argument, and the keys that its schema does not declare.

    ``{"recipients": {"eve@evil.io": "to"}}`` names an address in a key.
    """
    stack = [call.arguments.get(name)]
    while stack:
        match stack.pop():
            case Mapping() as members:
                yield from members.keys() - call.action.keys
                stack += members.values()
            case list() | tuple() as items:
                stack += items
            case bool() | None:
                continue
            case it:
                yield it


def _origins(values: Iterable[object], memory: RunMemory | None) -> list[str]:
    """Return the origins of values; without a run, all are ``text``. Raises FactUnavailable."""
    if memory is None:
        return [TEXT] if any(map(normal_text, values)) else []
    found: set[str] = set()
    for value in _distinct(values):
        found |= memory.origins(value)
    return sorted(found)


def _distinct(values: Iterable[object]) -> Iterable[object]:
    """Return distinct values. Raises FactUnavailable for too many: their look-up would be slow."""
    found: dict[object, None] = {}
    chars = 0
    for value in values:
        if value in found:
            continue
        found[value] = None
        if isinstance(value, str) and len(value) <= MAX_TASK_CHARS:  # longer ones are not compared
            chars += len(value)
        if len(found) > MAX_VALUES or chars > MAX_CHARS:
            raise FactUnavailable(
                "an argument has too many values to look up their origins; label the tool's targets"
            )
    return found


def _argument(action: PolicyAction, name: str, value: object) -> object:
    """Return an argument as a value of its Cedar type."""
    match action.types.get(name), value:
        case ArgumentType.STRING, str() as text:
            return _text(name, text)
        case ArgumentType.BOOL, bool():
            return value
        case ((ArgumentType.LONG | ArgumentType.DECIMAL), bool()):
            pass
        case ArgumentType.LONG, int() | float() as number:
            return _integer(name, number)
        case ArgumentType.DECIMAL, int() | float() as number:
            return _decimal(name, number)
        case ArgumentType.STRINGS, list() | tuple() as items:
            if len(items) > MAX_VALUES:
                raise FactUnavailable(f"{quote(name)} has more than {MAX_VALUES:,} items")
            return [_item(name, it) for it in items]
    raise FactUnavailable(f"{quote(name)} does not have the type that policies read")


def _text(name: str, text: str) -> str:
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise FactUnavailable(f"{quote(name)} has half of a surrogate pair")
    return text


def _item(name: str, item: object) -> str:
    if isinstance(item, str):
        return _text(name, item)
    text = normal_text(item)
    if text is None:
        raise FactUnavailable(f"{quote(name)} has an item that policies cannot read")
    return text


def _integer(name: str, value: float) -> int:
    if value % 1 != 0:  # also for NaN and infinity
        raise FactUnavailable(f"{quote(name)} is not an integer")
    number = int(value)
    if not _MIN_INTEGER <= number <= MAX_INTEGER:
        raise FactUnavailable(f"{quote(name)} has more than 64 bits")
    return number


def _decimal(name: str, value: float) -> JsonObject:
    if abs(value) > MAX_INTEGER:  # repr refuses integers of over 4,300 digits
        raise FactUnavailable(f"{quote(name)} is too large for a decimal")
    try:
        steps = Decimal(repr(value)) * _DECIMAL_STEPS
        number = int(steps)
    except (InvalidOperation, OverflowError, ValueError):
        raise FactUnavailable(f"{quote(name)} is not a decimal") from None
    if number != steps or not _MIN_INTEGER <= number <= MAX_INTEGER:
        raise FactUnavailable(f"{quote(name)} needs more than four digits after the point")
    sign, (whole, part) = "-" if number < 0 else "", divmod(abs(number), 10_000)
    return {"__extn": {"fn": "decimal", "arg": f"{sign}{whole}.{part:04}"}}
