"""Comparison of the presets' definitions with the lock, for ``check``."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.json_file import json_path
from mcp_tools_proxy.config.loader import CONFIGURATION_FILE
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.configuration import Preset, Problem
from mcp_tools_proxy.domain.definitions import (
    LOCK_FILE,
    DefinitionKey,
    DefinitionsLock,
    DefinitionsMode,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.gateway.definition_guard import (
    DefinitionGuard,
    difference_of,
    reason_of,
)
from mcp_tools_proxy.policy.definitions.canonical import shown_items
from mcp_tools_proxy.policy.definitions.comparison import (
    Finding,
    Findings,
    Variants,
    instructions_of,
)
from mcp_tools_proxy.policy.definitions.difference import FieldDifference
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.presets import filter_capabilities
from mcp_tools_proxy.policy.visibility import PresetScope
from mcp_tools_proxy.wire.text import quote

HOW_TO_LOCK = "mcp-tools-proxy check --lock"

Shown = Mapping[DefinitionKey, JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionsReport:
    """Findings about the definitions of all presets; ``locked`` is None without a lock."""

    findings: Findings = field(default_factory=Findings)
    locked: DefinitionsLock | None = None
    differences: Mapping[DefinitionKey, tuple[FieldDifference, ...]]

    @property
    def quarantined(self) -> int:
        """The number of quarantined definitions."""
        return len(self.findings.quarantined)


NO_DEFINITIONS = DefinitionsReport(differences={})


def shown_by_presets(
    presets: Iterable[Preset],
    snapshots: Mapping[str, Snapshot],
    exclude: Mapping[str, Exclusions],
) -> Shown:
    """Return all items of the presets, and the instructions of their servers."""
    shown: dict[DefinitionKey, JsonObject] = {}
    servers: set[str] = set()
    for preset in presets:
        shown.update(shown_items(filter_capabilities(snapshots, preset, exclude)))
        servers |= PresetScope.of(preset).servers
    shown.update(instructions_of(snapshots, sorted(servers)))
    return shown


def examine_definitions(
    shown: Shown,
    snapshots: Mapping[str, Snapshot],
    config: ActiveConfig,
    guard: DefinitionGuard,
) -> DefinitionsReport:
    """Compare the presets' definitions with the lock."""
    findings = guard.compare(tuple(shown.items()), snapshots, config)
    lock = config.lock.lock
    return DefinitionsReport(
        findings=findings,
        locked=lock,
        differences={
            it.key: difference_of(it, snapshots, lock) if lock is not None else ()
            for it in findings.remarkable
        },
    )


def with_unstable(report: DefinitionsReport, before: Shown, present: Shown) -> DefinitionsReport:
    """Mark definitions that differ between two starts of their server as unstable."""

    def marked(it: Finding) -> Finding:
        if it.key not in before or it.key not in present:
            return it
        variants = Variants.of(it.key.kind, before[it.key], present[it.key])
        return it if variants.before == variants.present else replace(it, unstable=variants)

    findings = replace(report.findings, items=tuple(map(marked, report.findings.items)))
    return replace(report, findings=findings)


def definition_warnings(report: DefinitionsReport) -> Iterator[Problem]:
    """Yield warnings for flagged definitions, and for changed ones that are still shown."""
    findings = report.findings
    for it in findings.remarkable:
        if it.flags:
            found = ", ".join(f"{flag.reason.value} in its {flag.field}" for flag in it.flags)
            path = json_path(("mcpServers", it.key.server_id))
            message = f"{_label(it)} is suspicious: {found}"
            yield Problem(file=CONFIGURATION_FILE, path=path, message=message)
        if it.guards:
            found = ", ".join(f"{one.guard.value} found {one.kind}" for one in it.guards)
            path = json_path(("mcpServers", it.key.server_id))
            hidden = ", so it is hidden" if it.hidden_by is not None else ""
            message = f"{_label(it)}: the guard {found} in its definition{hidden}"
            yield Problem(file=CONFIGURATION_FILE, path=path, message=message)
        if it.uncovered:
            message = f"{_label(it)} of {it.key.server_id}: {reason_of(it)}; {HOW_TO_LOCK}"
            yield Problem(file=LOCK_FILE, path="$.items", message=f"{message} covers all fields")
        if it.unstable:
            message = (
                f"{_label(it)} of {it.key.server_id} is unstable: it differs each time the "
                "server starts, so accepting it is useless; find a server setting that keeps it "
                "constant, or remove it from the presets"
            )
            yield Problem(file=LOCK_FILE, path="$.items", message=message)
        elif it.differs and not it.quarantined:
            message = f"{_label(it)} of {it.key.server_id} is {it.status.value}; {HOW_TO_LOCK}"
            yield Problem(file=LOCK_FILE, path="$.items", message=f"{message} accepts it")
    if findings.mode is DefinitionsMode.PIN and report.locked is None:
        message = f"is missing, so everything is quarantined; create it with {HOW_TO_LOCK}"
        yield Problem(file=LOCK_FILE, path="$", message=message)


def _label(finding: Finding) -> str:
    key = finding.key
    kind = key.kind.value.replace("_", " ")
    return f"{kind} {quote(key.name)}" if key.name else "the text of its instructions"
