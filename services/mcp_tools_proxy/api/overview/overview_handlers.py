"""The handler that shows how this replica is to operators with the right ``audit``."""

import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from fastapi import Response

from mcp_tools_proxy.api.endpoint import ParsedRequest, single_values, validate
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.api.overview.attention import at_most, for_all_tenants, for_tenant
from mcp_tools_proxy.api.overview.overview_models import OverviewQuery
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.server import ServerStatus
from mcp_tools_proxy.gateway.health import Health, Readiness
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.telemetry.recent_calls import MINUTE_S, MINUTES, CallSum, RecentCalls
from mcp_tools_proxy.telemetry.tight_budgets import TightBudget
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER
from mcp_tools_proxy.wire.version import VERSION

MAX_BUDGETS_SHOWN = 100


class OverviewHandlers:
    """Shows this replica as it is now; ``recent_calls`` is None where no calls are counted."""

    def __init__(
        self,
        health: Health,
        publisher: RegistryPublisher,
        gate: OperatorGate,
        *,
        servers: Callable[[], Sequence[ServerStatus]],
        recent_calls: RecentCalls | None,
    ) -> None:
        self._health = health
        self._publisher = publisher
        self._gate = gate
        self._servers = servers
        self._recent_calls = recent_calls
        self._started_at = datetime.now(UTC)

    async def show(self, parsed: ParsedRequest[None]) -> Response:
        """Show readiness, the calls of the last hour, tight budgets, and what needs a person."""
        query = validate(OverviewQuery, single_values(parsed.request.query_params))
        await self._gate.check(parsed, OperatorRight.AUDIT, tenant_id=query.tenant_id)
        tenant_id, readiness = query.tenant_id, self._health.readiness()
        if tenant_id is None:
            needed = for_all_tenants(self._servers(), self._publisher, readiness.checks)
        else:
            readiness = _states_of_servers(readiness)
            configs = self._publisher.configuration.servers
            needed = for_tenant(self._servers(), configs, tenant_id)
        attention, left_out = at_most(needed)
        content = {
            "replica": self._replica(shows_host=tenant_id is None),
            "readiness": {"status": readiness.status, "checks": readiness.checks},
            **self._figures(tenant_id),
            "attention": attention,
            "attention_left_out": left_out,
        }
        return json_response(content, headers={TRACE_HEADER: parsed.trace_id})

    def _replica(self, *, shows_host: bool) -> Mapping[str, object]:
        host = {"host": socket.gethostname()} if shows_host else {}
        return {
            **host,
            "version": VERSION,
            "started_at": self._started_at,
            "uptime_s": int((datetime.now(UTC) - self._started_at).total_seconds()),
        }

    def _figures(self, tenant_id: str | None) -> Mapping[str, object]:
        """Return the calls of the last hour and the tight budgets; nothing if none are counted."""
        recent = self._recent_calls
        if recent is None:
            return {}
        budgets = recent.budgets.near_end(tenant_id)[:MAX_BUDGETS_SHOWN]
        return {"calls": _calls(recent, tenant_id), "budgets": [_budget(it) for it in budgets]}


def _states_of_servers(readiness: Readiness) -> Readiness:
    """Return what of readiness somebody sees who looks after one tenant."""
    checks = {
        name: {key: check[key] for key in ("status", "state")}
        for name, check in readiness.checks.items()
        if name.startswith("server:")
    }
    return Readiness(readiness.status, checks)


def _calls(recent: RecentCalls, tenant_id: str | None) -> Mapping[str, object]:
    figures = recent.figures(tenant_id)
    by_server = sorted(figures.by_server.items(), key=lambda it: (-it[1].total, it[0] or ""))
    minutes = (
        {"at": datetime.fromtimestamp(at, UTC), "total": total, "errors": errors}
        for at, total, errors in figures.minutes
    )
    return {
        "window_s": MINUTES * MINUTE_S,
        "by_code": figures.whole.all_codes,
        **_sum(figures.whole),
        "total": sum(it.total for it in figures.minutes),
        "errors": sum(it.errors for it in figures.minutes),
        "by_server": [
            {
                **without_none({"server_id": server_id}),
                **_sum(calls),
                "not_sent": calls.not_sent,
                "per_minute": figures.per_minute[server_id],
            }
            for server_id, calls in by_server
        ],
        "minutes": list(minutes),
        "complete": figures.is_complete,
    }


def _sum(calls: CallSum) -> dict[str, object]:
    shown = {
        "total": calls.total,
        "errors": calls.errors,
        "p50_ms": _milliseconds(calls.quantile_s(0.5)),
        "p99_ms": _milliseconds(calls.quantile_s(0.99)),
    }
    return without_none(shown)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)


def _budget(budget: TightBudget) -> Mapping[str, object]:
    status = budget.status
    return {
        "tenant_id": budget.tenant_id,
        "name": status.name,
        "unit": status.unit,
        "limit": status.limit,
        "remaining": status.remaining,
        "reset_s": status.reset_s,
    }
