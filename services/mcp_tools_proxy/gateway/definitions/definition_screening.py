"""Screens definitions by the guards that are on: flags them, removes parts, or hides items."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.domain.audit.rule_source import RuleSource
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.guards import GuardAction, GuardFinding, GuardPlace
from mcp_tools_proxy.domain.offers.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.offers.overrides import Overrides
from mcp_tools_proxy.gateway.definitions.guard_rules import guard_set_of
from mcp_tools_proxy.policy.definitions.comparison import Findings
from mcp_tools_proxy.policy.guards.screen import Screen, run_at_once

_PROSE = ("description", "title")
_PROSE_OF_SERVER = ("instructions",)
"""Texts for people and models, of an item and of a server as a whole. Another text, such as a name
or a default, means something else when a part of it is gone, so the item is hidden instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenedDefinition:
    """What guards found in a definition, and what is left of it."""

    findings: tuple[GuardFinding, ...] = ()
    hidden_by: RuleSource | None = None
    redacted: JsonObject | None = None
    """What is shown instead of the server's descriptor."""


class DefinitionScreening:
    """Screens definitions; each descriptor once while the guards are the same.

    What a round did not read is forgotten with the next one.
    """

    def __init__(self, known: "_Known | None" = None) -> None:
        self._before: _Known = {}
        self.known: _Known = dict(known or {})
        """What was screened, by the identity of its descriptor and by the guards."""

    def copy(self) -> "DefinitionScreening":
        """Return another one that knows the same; it may be used in a thread."""
        return DefinitionScreening(self.known)

    def add(self, other: "DefinitionScreening") -> None:
        """Add what another one has screened."""
        self.known |= other.known

    def with_guards(
        self,
        findings: Findings,
        shown: Sequence[tuple[DefinitionKey, JsonObject]],
        config: ActiveConfig,
    ) -> Findings:
        """Add what guards find in the ``shown`` definitions."""
        guards = guard_set_of(config)
        if guards is None:
            return findings
        self._before, self.known = self.known, {}
        overridden = _overridden(config)
        screened: dict[DefinitionKey, ScreenedDefinition] = {}
        for key, descriptor in shown:
            screen = guards.for_definitions(key.server_id)
            if screen is not None:
                own = overridden.get((key.kind.item_kind, key.server_id, key.name))
                screened[key] = self._screened(screen, key.kind, descriptor, own)
        return replace(
            findings,
            items=tuple(
                it
                if (found := screened.get(it.key)) is None or not found.findings
                else replace(it, guards=found.findings, hidden_by=found.hidden_by)
                for it in findings.items
            ),
            redacted={
                key: found.redacted for key, found in screened.items() if found.redacted is not None
            },
        )

    def _screened(
        self,
        screen: Screen,
        kind: DefinitionKind,
        descriptor: JsonObject,
        overrides: Overrides | None,
    ) -> ScreenedDefinition:
        replaced = () if overrides is None else tuple(_replaced_fields(overrides))
        key = (id(descriptor), replaced, tuple(screen.rules.items()), screen.hosts)
        found = self.known.get(key) or self._before.get(key)
        if found is None:  # the descriptor is kept as well, so no other one gets its id
            found = (descriptor, _screen_definition(screen, kind, descriptor, replaced))
        self.known[key] = found
        return found[1]


_CacheKey = tuple[object, ...]
_Known = dict[_CacheKey, tuple[JsonObject, ScreenedDefinition]]


def _screen_definition(
    screen: Screen, kind: DefinitionKind, descriptor: JsonObject, replaced: Iterable[str]
) -> ScreenedDefinition:
    """Screen a descriptor without the fields that the preset replaces."""
    without = frozenset((id(descriptor), field) for field in replaced)
    screened = run_at_once(screen.steps(descriptor, GuardPlace.DEFINITION, without=without))
    hidden_by = None if screened.refused_by is None else screened.refused_by.source
    redacted = None
    if screened.value is not descriptor and isinstance(screened.value, Mapping):
        prose = _PROSE_OF_SERVER if kind is DefinitionKind.INSTRUCTIONS else _PROSE
        if _differs_in_prose_only(descriptor, screened.value, prose):
            redacted = screened.value
        else:
            hidden_by = _redacting_rule(screen, screened.findings)
    return ScreenedDefinition(findings=screened.findings, hidden_by=hidden_by, redacted=redacted)


def _redacting_rule(screen: Screen, findings: Iterable[GuardFinding]) -> RuleSource:
    redacting = (it.guard for it in findings if it.action is GuardAction.REDACT)
    return screen.rules[next(redacting)].source


def _differs_in_prose_only(
    before: object, after: object, prose: Collection[str], key: object = None
) -> bool:
    if before is after:
        return True
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return list(before) == list(after) and all(
            _differs_in_prose_only(before[it], after[it], prose, it) for it in before
        )
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        pairs = zip(before, after, strict=False)
        return all(_differs_in_prose_only(old, new, prose) for old, new in pairs)
    return key in prose and isinstance(before, str)


def _replaced_fields(overrides: Overrides) -> Iterator[str]:
    if overrides.title is not None:
        yield "title"
    if overrides.description is not None:
        yield "description"


def _overridden(config: ActiveConfig) -> Mapping[tuple[Kind | None, str, str], Overrides]:
    return {
        (kind, reference.server_id, reference.name): reference.overrides
        for kind, reference in config.preset.overridden
    }
