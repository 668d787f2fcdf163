"""Builds the lock that accepts what servers offer now."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.offers.definitions import (
    EMPTY_LOCK,
    DefinitionKey,
    DefinitionsLock,
    LockedDefinition,
)
from mcp_tools_proxy.policy.definitions.comparison import PresentDefinition, read_definition


def lock_of(
    shown: Iterable[tuple[DefinitionKey, JsonObject]],
    before: DefinitionsLock | None,
    *,
    unknown: Container[str],
) -> DefinitionsLock:
    """Build the lock that has just the ``shown`` definitions.

    Entries of ``unknown`` servers are kept: what such a server offers could not be asked, or not in
    full.
    """
    kept = {
        key: locked
        for key, locked in (before or EMPTY_LOCK).items.items()
        if key.server_id in unknown
    }
    present = {key: _locked(read_definition(key.kind, item)) for key, item in shown}
    return DefinitionsLock(items={**kept, **present})


def with_accepted(
    lock: DefinitionsLock | None, key: DefinitionKey, present: PresentDefinition
) -> DefinitionsLock:
    """Return a lock that has one more definition, or another one under its key."""
    lock = lock or EMPTY_LOCK
    items: Mapping[DefinitionKey, LockedDefinition] = {**lock.items, key: _locked(present)}
    return replace(lock, items=items)


def _locked(present: PresentDefinition) -> LockedDefinition:
    return LockedDefinition(sha256=present.sha256, definition=present.definition)
