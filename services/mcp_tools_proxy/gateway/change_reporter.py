"""Logs what a reload changed: each problem, warning and finding once, when it is new."""

from collections.abc import Collection, Iterable

import structlog

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.gateway.check.missing_items import MissingItems, log_missing_items
from mcp_tools_proxy.registry.permissions import UNRESTRICTED, AccessRules

log = structlog.get_logger()


def log_config_changes(found: ActiveConfig, before: ActiveConfig) -> None:
    """Log the problems, warnings and active preset of ``found`` that ``before`` had not."""
    log_new("config.problem", found.problems, before.problems)
    log_new("config.warning", found.warnings, before.warnings)
    if found.preset.preset_id != before.preset.preset_id:
        log.info("preset.active", preset=found.preset.preset_id)


class ChangeReporter:
    """Logs what a new registry changes; what it logged of the previous one is not logged again."""

    def __init__(self) -> None:
        self._missing: Collection[MissingItems] = ()
        self._unmatched_exclusions: Collection[Problem] = ()
        self._access_rules = UNRESTRICTED

    def report(
        self,
        missing: Iterable[MissingItems],
        unmatched: Collection[Problem],
        access_rules: AccessRules,
        preset_id: str,
    ) -> None:
        """Log what a registry leaves out, ``unmatched`` exclusions, and the number of agents."""
        missing = tuple(missing)
        log_missing_items([it for it in missing if it not in self._missing], preset_id=preset_id)
        log_new("config.warning", unmatched, self._unmatched_exclusions)
        if _agents(access_rules) != _agents(self._access_rules):
            log.info("agents.active", **_agents(access_rules))
        self._missing, self._unmatched_exclusions, self._access_rules = (
            missing,
            unmatched,
            access_rules,
        )


def _agents(access_rules: AccessRules) -> dict[str, object]:
    return {"agents": len(access_rules.agents or ()), "agent_required": access_rules.agent_required}


def log_new(event: str, problems: Iterable[Problem], before: Collection[Problem]) -> None:
    """Log the problems that were not there ``before``."""
    for it in problems:
        if it not in before:
            log.warning(event, file=it.file, path=it.path, reason=it.message)
