"""What operators are shown of definitions: the state of each, its flags, and how it differs."""

from collections.abc import Iterable, Mapping

from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.offers.definitions import EMPTY_LOCK, LOCK_VERSION, DefinitionsLock
from mcp_tools_proxy.domain.offers.snapshot import Snapshot
from mcp_tools_proxy.policy.definitions.canonical import definition_of, descriptor_of
from mcp_tools_proxy.policy.definitions.comparison import DefinitionStatus, Finding
from mcp_tools_proxy.policy.definitions.difference import FieldDifference, differences
from mcp_tools_proxy.wire.text import printable


def difference_of(
    finding: Finding, snapshots: Mapping[str, Snapshot], lock: DefinitionsLock | None
) -> tuple[FieldDifference, ...]:
    """Return how a definition differs from the locked one; a new one differs from nothing."""
    if finding.status not in (DefinitionStatus.CHANGED, DefinitionStatus.NEW):
        return ()
    key = finding.key
    locked = (lock or EMPTY_LOCK).items.get(key)
    snapshot = snapshots.get(key.server_id)
    descriptor = None if snapshot is None else descriptor_of(snapshot, key)
    version = LOCK_VERSION if locked is None else locked.version
    return differences(
        None if locked is None else locked.definition,
        None if descriptor is None else definition_of(key.kind, descriptor, version),
    )


def definition_facts(
    findings: Iterable[Finding],
    snapshots: Mapping[str, Snapshot],
    lock: DefinitionsLock | None,
) -> list[Mapping[str, object]]:
    """Return each finding as JSON, with hidden characters escaped. Takes long for long texts."""
    return [finding_facts(it, difference_of(it, snapshots, lock)) for it in findings]


def finding_facts(finding: Finding, found: tuple[FieldDifference, ...]) -> Mapping[str, object]:
    """Return one finding as JSON, with how its definition differs from the locked one.

    An unstable one also with how it differs from the one before it.
    """
    key = finding.key
    shown = printable(key.name)
    return without_none(
        {
            "server_id": key.server_id,
            "kind": key.kind.value,
            "name": key.name,
            "shown_name": None if shown == key.name else shown,
            "status": finding.status.value,
            "quarantined": finding.quarantined,
            "sha256": finding.sha256,
            "locked_sha256": finding.locked_sha256,
            "uncovered": list(finding.uncovered) or None,
            "flags": [{"reason": flag.reason.value, "field": flag.field} for flag in finding.flags],
            "guards": [it.as_json for it in finding.guards],
            "hidden": None if finding.hidden_by is None else True,
            "unstable": finding.unstable and _difference_facts(differences(*finding.unstable)),
            "difference": _difference_facts(found),
        }
    )


def _difference_facts(found: Iterable[FieldDifference]) -> list[Mapping[str, object]]:
    return [
        {
            "field": it.place,
            "words": [{"edit": edit.value, "text": text} for edit, text in it.pieces],
        }
        for it in found
    ]
