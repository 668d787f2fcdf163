"""Definitions of items, as models read them, and the lock that pins them."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import NamedTuple

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import Snapshot

LOCK_FILE = "definitions.lock.json"

LOCK_VERSION = 2
"""Version of new lock entries. Version 1 does not cover ``_meta``, ``icons`` and ``execution``."""


class DefinitionsMode(StrEnum):
    """The handling of items whose definition differs from the lock file."""

    OPEN = "open"
    WARN = "warn"
    PIN = "pin"
    """The item is quarantined: neither listed nor callable."""


class DefinitionKind(StrEnum):
    """Kind of a definition."""

    TOOL = "tool"
    PROMPT = "prompt"
    RESOURCE = "resource"
    RESOURCE_TEMPLATE = "resource_template"
    INSTRUCTIONS = "instructions"
    """A server's instructions; their name is empty."""

    @property
    def item_kind(self) -> Kind | None:
        """The kind of the item: RESOURCE for a template, None for instructions."""
        match self:
            case DefinitionKind.INSTRUCTIONS:
                return None
            case DefinitionKind.RESOURCE_TEMPLATE:
                return Kind.RESOURCE
            case _:
                return Kind(self.value)


class DefinitionKey(NamedTuple):
    """One definition of one server; ``name`` is the item's name, URI or URI template."""

    server_id: str
    kind: DefinitionKind
    name: str


def without_items(
    snapshots: Mapping[str, Snapshot], keys: frozenset[DefinitionKey]
) -> Mapping[str, Snapshot]:
    """Return the offers without these items; unaffected snapshots are the same objects."""
    affected = {key.server_id for key in keys}
    return {
        server_id: _reduced(server_id, snapshot, keys) if server_id in affected else snapshot
        for server_id, snapshot in snapshots.items()
    }


def with_items(
    snapshots: Mapping[str, Snapshot], items: Mapping[DefinitionKey, JsonObject]
) -> Mapping[str, Snapshot]:
    """Return the offers with these descriptors in place of the servers' own."""
    if not items:
        return snapshots
    affected = {key.server_id for key in items}

    def changed(server_id: str, snapshot: Snapshot) -> Snapshot:
        def own(kind: DefinitionKind, offered: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
            return {
                name: items.get(DefinitionKey(server_id, kind, name), item)
                for name, item in offered.items()
            }

        return _with_each_kind(snapshot, own)

    return {
        server_id: changed(server_id, snapshot) if server_id in affected else snapshot
        for server_id, snapshot in snapshots.items()
    }


def _reduced(server_id: str, snapshot: Snapshot, keys: frozenset[DefinitionKey]) -> Snapshot:
    def kept(kind: DefinitionKind, items: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
        return {
            name: item
            for name, item in items.items()
            if DefinitionKey(server_id, kind, name) not in keys
        }

    return _with_each_kind(snapshot, kept)


def _with_each_kind(
    snapshot: Snapshot,
    change: Callable[[DefinitionKind, Mapping[str, JsonObject]], dict[str, JsonObject]],
) -> Snapshot:
    return replace(
        snapshot,
        tools=change(DefinitionKind.TOOL, snapshot.tools),
        prompts=change(DefinitionKind.PROMPT, snapshot.prompts),
        resources=change(DefinitionKind.RESOURCE, snapshot.resources),
        templates=change(DefinitionKind.RESOURCE_TEMPLATE, snapshot.templates),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedDefinition:
    """An accepted definition; ``definition`` is missing (None) if a file cannot hold its text.

    ``version`` determines which fields the hash covers.
    """

    sha256: str
    definition: JsonObject | None = None
    version: int = LOCK_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionsLock:
    """The definitions that an operator accepted."""

    items: Mapping[DefinitionKey, LockedDefinition] = field(default_factory=dict)


EMPTY_LOCK = DefinitionsLock()
