"""Withholds definitions that differ from the lock, and reports them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.definitions import (
    EMPTY_LOCK,
    LOCK_VERSION,
    DefinitionKey,
    DefinitionKind,
    DefinitionsLock,
    DefinitionsMode,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.offers import Snapshot, View
from mcp_tools_proxy.gateway.screening import DefinitionScreening
from mcp_tools_proxy.policy.definitions.canonical import definition_of, descriptor_of, shown_items
from mcp_tools_proxy.policy.definitions.comparison import (
    DefinitionReader,
    DefinitionStatus,
    Finding,
    Findings,
    Variants,
    compare,
    instructions_of,
)
from mcp_tools_proxy.policy.definitions.difference import (
    FieldDifference,
    brief_differences,
    differences,
)
from mcp_tools_proxy.policy.definitions.flags import KnownNames
from mcp_tools_proxy.policy.visibility import PresetScope
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable

MAX_LINES = 20
"""Items of one event logged individually."""


log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Offered:
    """The last definition of an unaccepted item, and the pair with the previous one."""

    sha256: str | None
    descriptor: JsonObject
    both: Variants | None = None


def _with_offered(known: _Offered | None, found: Finding, descriptor: JsonObject) -> _Offered:
    if known is None:
        return _Offered(found.sha256, descriptor)
    if known.sha256 == found.sha256:
        return known
    both = Variants.of(found.key.kind, known.descriptor, descriptor)
    return _Offered(found.sha256, descriptor, both)


class DefinitionGuard:
    """Compares definitions whenever a registry is built, not during calls.

    ``setting`` is the mode in the settings, None for the default; ``local_names`` are names of the
    gateway's own tools.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        local_names: Iterable[str] = (),
        setting: DefinitionsMode | None = None,
    ) -> None:
        self._metrics = metrics
        self._local_names = tuple(local_names)
        self._setting = setting
        self._reader = DefinitionReader()
        self.screening = DefinitionScreening()
        self._offered: dict[DefinitionKey, _Offered] = {}
        self._reported: Collection[Finding] = ()
        self._counted: frozenset[str] = frozenset()
        """Servers with series in the metrics."""
        self.findings = Findings()
        """Findings for the current registry."""

    @property
    def quarantined(self) -> int:
        """The number of quarantined definitions."""
        return len(self.findings.quarantined)

    def mode(self, config: ActiveConfig) -> DefinitionsMode:
        """Return the effective mode for a configuration."""
        return config.lock.mode(self._setting)

    def examine(
        self, view: View, snapshots: Mapping[str, Snapshot], config: ActiveConfig
    ) -> Findings:
        """Compare the definitions of ``view``, and its servers' instructions, with the lock."""
        self._reader.begin()
        shown = _shown(view, snapshots, config)
        return self._with_unstable(self.compare(shown, snapshots, config), dict(shown))

    def _with_unstable(
        self, findings: Findings, shown: Mapping[DefinitionKey, JsonObject]
    ) -> Findings:
        """Mark definitions that changed again before they were accepted.

        A definition with a date or port differs at each start, so accepting it is useless.
        """
        known, self._offered = self._offered, {}
        items = []
        for it in findings.items:
            if it.differs:
                offered = _with_offered(known.get(it.key), it, shown[it.key])
                self._offered[it.key] = offered
                it = replace(it, unstable=offered.both)  # noqa: PLW2901
            items.append(it)
        return replace(findings, items=tuple(items))

    def compare_uncached(
        self,
        view: View,
        snapshots: Mapping[str, Snapshot],
        config: ActiveConfig,
        *,
        screening: DefinitionScreening | None = None,
    ) -> Findings:
        """Compare like ``examine`` without keeping state; can run in a thread.

        Results of guards are kept in ``screening`` if it is set.
        """
        shown = _shown(view, snapshots, config)
        screening = screening or DefinitionScreening()
        return self.compare(shown, snapshots, config, DefinitionReader(), screening)

    def compare(
        self,
        shown: Sequence[tuple[DefinitionKey, JsonObject]],
        snapshots: Mapping[str, Snapshot],
        config: ActiveConfig,
        reader: DefinitionReader | None = None,
        screening: DefinitionScreening | None = None,
    ) -> Findings:
        """Compare definitions with the lock of a configuration, and screen them with its guards."""
        tools = ((key.server_id, key.name) for key, _ in shown if key.kind is DefinitionKind.TOOL)
        findings = compare(
            shown,
            snapshots=snapshots,
            lock=config.lock.lock,
            mode=self.mode(config),
            names=KnownNames.of(config.server_ids, self._local_names, tools),
            reader=reader or self._reader,
        )
        return (screening or self.screening).with_guards(findings, shown, config)

    def report(self, findings: Findings, servers: Iterable[str]) -> None:
        """Save the findings, set the metrics of ``servers``, and log new findings."""
        self.findings = findings
        self._count(findings.items, servers)
        known = frozenset(self._reported)
        new = [it for it in findings.remarkable if it not in known]
        _log("definition.quarantined", [it for it in new if it.quarantined])
        _log(
            "definition.changed",
            [it for it in new if it.differs and not it.quarantined],
        )
        _log("definition.flagged", [it for it in new if it.flags])
        _log("definition.uncovered", [it for it in new if it.uncovered])
        _log("definition.unstable", [it for it in new if it.unstable])
        _log("definition.guarded", [it for it in new if it.guards])
        for found in (found for it in new for found in it.guards):
            self._metrics.guard_findings.labels(found.guard, found.place, found.action).inc(
                found.count
            )
        self._reported = findings.remarkable

    def _count(self, items: Iterable[Finding], servers: Iterable[str]) -> None:
        items = tuple(items)
        metrics = self._metrics
        gauges = (
            (metrics.definitions_quarantined, (it for it in items if it.quarantined)),
            (metrics.definitions_changed, (it for it in items if it.differs)),
            (metrics.definitions_flagged, (it for it in items if it.flags)),
        )
        servers = frozenset(servers)
        for gauge, found in gauges:
            counts = Counter(it.key.server_id for it in found)
            for server_id in servers:
                gauge.labels(server_id).set(counts[server_id])
            for server_id in self._counted - servers:
                gauge.remove_by_labels({"server": server_id})
        self._counted = servers


def _shown(
    view: View, snapshots: Mapping[str, Snapshot], config: ActiveConfig
) -> Sequence[tuple[DefinitionKey, JsonObject]]:
    """Return the definitions of a view and the instructions of the preset's servers."""
    servers = sorted(PresetScope.of(config.preset).servers)
    return (*shown_items(view), *instructions_of(snapshots, servers))


def _log(event: str, findings: list[Finding]) -> None:
    """Log the first findings individually, and the number of others."""
    for it in findings[:MAX_LINES]:
        log.warning(
            event,
            server_id=it.key.server_id,
            kind=it.key.kind.value,
            name=printable(it.key.name[:QUOTE_CHARS]),
            reason=reason_of(it),
            flags=[flag.reason.value for flag in it.flags],
            **({"guards": [found.as_json for found in it.guards]} if it.guards else {}),
            **(_difference(it) if event == "definition.unstable" else {}),
            sha256=it.sha256,
        )
    if len(findings) > MAX_LINES:
        log.warning(event, more=len(findings) - MAX_LINES)


def _difference(finding: Finding) -> Mapping[str, object]:
    return {"difference": brief_differences(*finding.unstable)} if finding.unstable else {}


def reason_of(finding: Finding) -> str:
    """Return the problem of a definition as text."""
    if finding.hidden_by is not None:
        kinds = ", ".join(f"{it.guard.value} ({it.kind})" for it in finding.guards)
        return f"a guard hides it: {kinds}"
    match finding.status:
        case DefinitionStatus.CHANGED:
            return "its definition differs from definitions.lock.json"
        case DefinitionStatus.NEW:
            return "it is not in definitions.lock.json"
        case DefinitionStatus.MISSING:
            return "it is in definitions.lock.json, but the server no longer offers it"
        case _ if finding.uncovered:
            fields = ", ".join(finding.uncovered)
            return f"its entry in definitions.lock.json is of version 1 and does not cover {fields}"
        case _:
            return "it has flags" if finding.flags or finding.guards else "it matches the lock"


def difference_of(
    finding: Finding, snapshots: Mapping[str, Snapshot], lock: DefinitionsLock | None
) -> tuple[FieldDifference, ...]:
    """Return the differences of a definition from the locked one."""
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
    """Return findings as JSON with hidden characters escaped; slow for long texts."""
    return [finding_facts(it, difference_of(it, snapshots, lock)) for it in findings]


def finding_facts(finding: Finding, found: tuple[FieldDifference, ...]) -> Mapping[str, object]:
    """Return one finding as JSON with the differences from the locked definition.

    An unstable one also has the differences from its previous definition.
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
