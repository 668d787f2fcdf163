"""Builds the readiness report with the check of each dependency."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.app.mcp import remote_caller
from mcp_tools_proxy.domain.backend_link import RemoteStatus
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.definitions import DefinitionsMode
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.gateway.definition_guard import DefinitionGuard
from mcp_tools_proxy.gateway.health import Health, ReadinessCheck, backend_readiness
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.ratelimit.limiter import Limiter
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.telemetry.audit.audit_file import AuditFile
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail

if TYPE_CHECKING:
    from mcp_tools_proxy.documents.retrieval_client import RetrievalClient

PROBLEMS_SHOWN = 20
"""Limit of configuration problems in a readiness report."""


def build_health(
    settings: Settings, gateway: Gateway, remote: Callable[[], RemoteStatus] | None
) -> Health:
    """Build the report of the gateway; ``remote`` returns the state of a backend, if any."""
    checks: dict[str, ReadinessCheck] = {
        "documents": gateway.documents.readiness,
        "limit_store": lambda: _limit_store_check(gateway.limiter),
        "idempotency": gateway.records.readiness,
        "runs": gateway.runs.readiness,
        "config": lambda: _config_check(gateway.publisher),
        "preset": lambda: _preset_check(gateway.publisher),
        "agents": lambda: _agents_check(gateway.registry.current.access_rules),
    }
    if settings.definitions is DefinitionsMode.PIN:
        checks["definitions"] = lambda: _definitions_check(gateway.publisher.definitions)
    if (retrieval := gateway.retrieval) is not None:
        checks["retrieval"] = lambda: _retrieval_check(retrieval)
    if (audit_file := gateway.audit.file) is not None:
        checks["audit"] = lambda: _audit_check(gateway.audit, audit_file)
    if gateway.tokens is not None:
        checks["tokens"] = gateway.tokens.state
    if gateway.signing_keys is not None:
        checks["signing_keys"] = gateway.signing_keys.state
    if remote is not None:
        caller = remote_caller(settings, gateway)
        leads = gateway.workers.leads
        checks["remote"] = lambda: (
            backend_readiness(remote(), _problem_of(gateway, caller)) if leads.is_set() else None
        )
    for name, check in checks.items():
        gateway.metrics.readiness_ok.labels(name).set_function(partial(_is_ok, check))
    return Health(gateway.lifecycle, checks, gateway.statuses, started=gateway.startup.is_over)


def _is_ok(check: ReadinessCheck) -> bool:
    result = check()
    return result is None or result["status"] == "ok"


def _problem_of(gateway: Gateway, caller: Caller) -> str | None:
    try:
        gateway.registry.current.access_rules.permissions_of(caller)
    except ProxyError as error:
        return error.message
    return None


def _limit_store_check(limiter: Limiter) -> Mapping[str, object]:
    check = {
        "status": "ok" if limiter.up else "degraded",
        "store": limiter.store,
        "problem": None if limiter.up else limiter.problem,
    }
    return without_none(check)


def _retrieval_check(client: "RetrievalClient") -> Mapping[str, object]:
    last = client.last_call
    check = {
        "status": "degraded" if last == "failed" else "ok",
        "last_call": last,
        "problem": client.failure,
    }
    return without_none(check)


def _audit_check(audit: AuditTrail, file: AuditFile) -> Mapping[str, object]:
    return {
        "status": "ok" if audit.failure is None else "degraded",
        "queued": file.queued,
        "lost": audit.lost,
        "failure": audit.failure,
    }


def _config_check(publisher: RegistryPublisher) -> Mapping[str, object]:
    last = publisher.last_reload
    problems = [str(problem) for problem in publisher.problems[:PROBLEMS_SHOWN]]
    return {
        "status": "ok" if last is not None and last.ok and not problems else "degraded",
        "last_reload": None if last is None else last.at,
        "problems": problems,
    }


def _agents_check(access_rules: AccessRules) -> Mapping[str, object]:
    return {
        "status": "degraded" if access_rules.agents is None else "ok",
        "profiles": len(access_rules.agents or ()),
        "required": access_rules.agent_required,
    }


def _definitions_check(guard: DefinitionGuard) -> Mapping[str, object]:
    return {
        "status": "degraded" if guard.quarantined else "ok",
        "quarantined": guard.quarantined,
    }


def _preset_check(publisher: RegistryPublisher) -> Mapping[str, object]:
    missing = publisher.preset_state.missing
    reasons = dict.fromkeys(reason.text for _, reason in missing)
    return {
        "status": "degraded" if missing else "ok",
        "active": publisher.config.preset.preset_id,
        "missing": len(missing),
        **({"reasons": [*reasons][:PROBLEMS_SHOWN]} if reasons else {}),
    }
