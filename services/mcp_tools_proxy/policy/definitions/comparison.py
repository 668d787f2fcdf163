"""Compares definitions with the lock, decides on quarantine, and builds new locks."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import NamedTuple, Self

from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.definitions import (
    EMPTY_LOCK,
    DefinitionKey,
    DefinitionKind,
    DefinitionsLock,
    DefinitionsMode,
    LockedDefinition,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.guards import GuardFinding
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.policy.definitions.canonical import (
    canonical_json,
    definition_of,
    descriptor_of,
    digest_of,
    uncovered_fields,
)
from mcp_tools_proxy.policy.definitions.flags import Flag, FlagReason, KnownNames, text_flags


class DefinitionStatus(StrEnum):
    """The relation of a definition to the lock file."""

    AS_LOCKED = "as_locked"
    CHANGED = "changed"
    NEW = "new"
    """The lock does not contain it."""
    MISSING = "missing"
    """The lock contains it, but its server does not offer it now."""
    UNLOCKED = "unlocked"
    """The lock is missing or not compared."""


_NOT_ACCEPTED = (DefinitionStatus.CHANGED, DefinitionStatus.NEW)


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentDefinition:
    """The definition that its server offers now."""

    definition: JsonObject
    sha256: str
    flags: tuple[Flag, ...] = ()


class Variants(NamedTuple):
    """Two definitions of one item, from two starts of its server."""

    before: JsonObject
    present: JsonObject

    @classmethod
    def of(cls, kind: DefinitionKind, before: JsonObject, present: JsonObject) -> Self:
        """Return the compared fields of two descriptors."""
        return cls(definition_of(kind, before), definition_of(kind, present))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result for one definition; ``sha256`` is the current one's, None if missing.

    ``uncovered`` are fields of the item that its lock entry (version 1) does not cover.
    """

    key: DefinitionKey
    status: DefinitionStatus
    quarantined: bool = False
    flags: tuple[Flag, ...] = ()
    sha256: str | None = None
    locked_sha256: str | None = None
    uncovered: tuple[str, ...] = ()
    guards: tuple[GuardFinding, ...] = ()
    hidden_by: RuleSource | None = None
    unstable: Variants | None = field(default=None, compare=False)
    """Set if the server has offered several unaccepted definitions of it."""

    @property
    def differs(self) -> bool:
        """Whether the offered definition is not accepted."""
        return self.status in _NOT_ACCEPTED


class DefinitionReader:
    """Reads definitions, each descriptor once as long as its server offers it.

    ``begin`` starts a round: entries that the previous round did not read are dropped.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[JsonObject, PresentDefinition]] = {}
        self._before: dict[int, tuple[JsonObject, PresentDefinition]] = {}

    def begin(self) -> None:
        """Start a round of reading."""
        self._before, self._known = self._known, {}

    def read(self, kind: DefinitionKind, descriptor: JsonObject) -> PresentDefinition:
        """Return a definition with its hash and the flags of its texts."""
        identity = id(descriptor)  # the descriptor is kept, so that its id is not reused
        found = self._known.get(identity) or self._before.get(identity)
        if found is None:
            found = (descriptor, read_definition(kind, descriptor))
        self._known[identity] = found
        return found[1]


def read_definition(kind: DefinitionKind, descriptor: JsonObject) -> PresentDefinition:
    """Return a descriptor's definition with its hash and the flags of its texts."""
    definition = definition_of(kind, descriptor)
    canonical = canonical_json(definition)
    return PresentDefinition(
        definition=definition,
        sha256=digest_of(canonical),
        flags=text_flags(definition, canonical),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The results for all listed definitions, in order."""

    mode: DefinitionsMode = DefinitionsMode.OPEN
    items: tuple[Finding, ...] = ()
    redacted: Mapping[DefinitionKey, JsonObject] = field(default_factory=dict)
    """Replacements for definitions that guards have redacted."""

    @property
    def quarantined(self) -> frozenset[DefinitionKey]:
        """The keys of quarantined definitions."""
        return frozenset(it.key for it in self.items if it.quarantined)

    @property
    def guarded(self) -> Mapping[DefinitionKey, RuleSource]:
        """The keys of definitions hidden by guards, with the rule."""
        return {it.key: it.hidden_by for it in self.items if it.hidden_by is not None}

    @property
    def remarkable(self) -> tuple[Finding, ...]:
        """Findings for operators: everything that differs from the lock or is suspicious."""
        fine = (DefinitionStatus.AS_LOCKED, DefinitionStatus.UNLOCKED)
        return tuple(
            it
            for it in self.items
            if it.flags or it.guards or it.uncovered or it.unstable or it.status not in fine
        )


def compare(
    shown: Iterable[tuple[DefinitionKey, JsonObject]],
    *,
    snapshots: Mapping[str, Snapshot],
    lock: DefinitionsLock | None,
    mode: DefinitionsMode,
    names: KnownNames,
    reader: DefinitionReader,
) -> Findings:
    """Compare the ``shown`` definitions with the lock.

    In the mode PIN, all unaccepted definitions are quarantined; without a lock, all are.
    """
    found = [
        _finding(key, reader.read(key.kind, descriptor), lock=lock, mode=mode, names=names)
        for key, descriptor in shown
    ]
    known = {it.key for it in found}
    missing = () if lock is None or mode is DefinitionsMode.OPEN else _missing(lock, snapshots)
    return Findings(
        mode=mode, items=(*found, *(finding for finding in missing if finding.key not in known))
    )


def _finding(
    key: DefinitionKey,
    present: PresentDefinition,
    *,
    lock: DefinitionsLock | None,
    mode: DefinitionsMode,
    names: KnownNames,
) -> Finding:
    flags = present.flags
    if names.is_lookalike(key):
        flags = (*flags, Flag(FlagReason.LOOKALIKE_NAME, "name"))
    locked = None if lock is None else lock.items.get(key)
    status = _status(key.kind, present, locked, mode)
    return Finding(
        key=key,
        status=status,
        quarantined=mode is DefinitionsMode.PIN and status in _NOT_ACCEPTED,
        flags=flags,
        sha256=present.sha256,
        locked_sha256=None if locked is None else locked.sha256,
        uncovered=_uncovered(present, locked) if status is DefinitionStatus.AS_LOCKED else (),
    )


def _status(
    kind: DefinitionKind,
    present: PresentDefinition,
    locked: LockedDefinition | None,
    mode: DefinitionsMode,
) -> DefinitionStatus:
    if mode is DefinitionsMode.OPEN:
        return DefinitionStatus.UNLOCKED
    if locked is None:
        return DefinitionStatus.NEW
    sha256 = present.sha256
    if uncovered_fields(locked.version):
        covered = definition_of(kind, present.definition, locked.version)
        sha256 = digest_of(canonical_json(covered))
    is_same = sha256 == locked.sha256
    return DefinitionStatus.AS_LOCKED if is_same else DefinitionStatus.CHANGED


def _uncovered(present: PresentDefinition, locked: LockedDefinition | None) -> tuple[str, ...]:
    names = () if locked is None else uncovered_fields(locked.version)
    return tuple(name for name in names if name in present.definition)


def _missing(lock: DefinitionsLock, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    for key, locked in lock.items.items():
        snapshot = snapshots.get(key.server_id)
        if snapshot is not None and descriptor_of(snapshot, key) is None:
            yield Finding(key=key, status=DefinitionStatus.MISSING, locked_sha256=locked.sha256)


def instructions_of(
    snapshots: Mapping[str, Snapshot], servers: Iterable[str]
) -> Iterator[tuple[DefinitionKey, JsonObject]]:
    """Yield the instructions of these ``servers``, if they have any."""
    for server_id in servers:
        key = DefinitionKey(server_id, DefinitionKind.INSTRUCTIONS, "")
        snapshot = snapshots.get(server_id)
        descriptor = None if snapshot is None else descriptor_of(snapshot, key)
        if descriptor is not None:
            yield key, descriptor


def lock_of(
    shown: Iterable[tuple[DefinitionKey, JsonObject]],
    before: DefinitionsLock | None,
    *,
    unknown: Container[str],
) -> DefinitionsLock:
    """Build a lock of exactly the ``shown`` definitions.

    Entries of ``unknown`` servers, whose offers are unavailable or incomplete, are kept.
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
    """Return a lock with a new or replaced definition under this key."""
    lock = lock or EMPTY_LOCK
    items: Mapping[DefinitionKey, LockedDefinition] = {**lock.items, key: _locked(present)}
    return replace(lock, items=items)


def _locked(present: PresentDefinition) -> LockedDefinition:
    return LockedDefinition(sha256=present.sha256, definition=present.definition)
