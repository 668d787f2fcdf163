"""Shows the state of this replica to operators with the right ``audit``."""

import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.server import LoginFor, ServerConfig, ServerState, ServerStatus
from mcp_tools_proxy.gateway.definition_guard import reason_of
from mcp_tools_proxy.gateway.health import CheckResult, Readiness
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.gateway.whole_service import WholeService
from mcp_tools_proxy.http.api.answer_models import AnswerModel
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.health_routes import ReadinessAnswer
from mcp_tools_proxy.http.api.limit_routes import LimitUnit
from mcp_tools_proxy.http.api.openapi import Tag
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.api.schemas import open_names
from mcp_tools_proxy.telemetry.recent_calls import (
    MINUTE_S,
    MINUTES,
    CallFigures,
    CallSum,
    TightBudget,
)
from mcp_tools_proxy.wire.identifiers import Identifier
from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable
from mcp_tools_proxy.wire.version import VERSION


class OverviewQuery(BaseModel):
    """Query of GET /internal/mcp/overview."""

    model_config = ConfigDict(extra="forbid")

    tenant_id: Annotated[
        Identifier | None,
        Field(
            description=(
                "Show only this tenant's figures, budgets and pending logins, and only the "
                "states of servers. Default: all tenants."
            )
        ),
    ] = None


class AttentionKind(StrEnum):
    """Kind of an item that needs attention."""

    SERVER_FAILING = "server_failing"
    LOGIN_WAITING = "login_waiting"
    ITEM_MISSING = "item_missing"
    ITEM_QUARANTINED = "item_quarantined"
    ITEM_GUARDED = "item_guarded"
    ITEM_CHANGED = "item_changed"
    FILE_PROBLEM = "file_problem"
    CONFIG_RETAINED = "config_retained"
    DEPENDENCY_DEGRADED = "dependency_degraded"
    RECORDS_LOST = "records_lost"


class ReplicaAnswer(AnswerModel, title="Replica"):
    """The replica that received the request. Other replicas have their own figures."""

    host: Annotated[str | None, Field(description="Host name; not with `tenant_id`.")] = None
    version: str
    started_at: datetime
    uptime_s: int


class ServerCallsAnswer(AnswerModel, title="ServerCalls"):
    """Calls to one server; without ``server_id``, calls to no server."""

    server_id: Annotated[
        str | None,
        Field(
            description=(
                "Missing for the gateway's own tools and for unknown names. `other` combines the "
                "servers beyond the first 256 in a minute."
            )
        ),
    ] = None
    total: Annotated[int, Field(description="Calls sent to the server.")]
    errors: int
    not_sent: Annotated[
        int,
        Field(
            description="Calls for the server that were not sent to it, such as refused calls. "
            "The server's other figures do not include them."
        ),
    ]
    p50_ms: float | None = None
    p99_ms: float | None = None
    per_minute: Annotated[
        list[int], Field(description="Calls that ended in each minute, oldest first.")
    ]


class MinuteCallsAnswer(AnswerModel, title="MinuteCalls"):
    """Calls that ended in one minute, starting at ``at``."""

    at: datetime
    total: int
    errors: int


class RecentCallsAnswer(AnswerModel, title="RecentCalls"):
    """Calls that ended in the last hour on this replica. Times are accurate to 8 %."""

    window_s: int
    total: int
    errors: Annotated[int, Field(description="Calls with a code other than `OK`.")]
    by_code: Annotated[
        dict[str, int],
        Field(title="CallsByCode", description="Number of calls with each code, including `OK`."),
    ]
    by_server: Annotated[
        list[ServerCallsAnswer], Field(description=("Servers, sorted by number of calls."))
    ]
    p50_ms: float | None = None
    p99_ms: float | None = None
    minutes: Annotated[list[MinuteCallsAnswer], Field(description="All 60 minutes, oldest first.")]
    complete: Annotated[
        bool,
        Field(
            description=(
                "`false` if calls in one minute came from more than 256 pairs of tenant and "
                "server, so that a single tenant's figures may be too low."
            )
        ),
    ]


class TightBudgetAnswer(AnswerModel, title="TightBudget"):
    """A budget with at most a fifth left in a window that has not ended."""

    tenant_id: str
    name: str
    unit: LimitUnit
    limit: int
    remaining: int
    reset_s: int


class AttentionAnswer(AnswerModel, title="AttentionItem"):
    """An item that needs attention. ``subject`` names it, in words or by id."""

    kind: Annotated[
        str,
        open_names(
            "AttentionKind",
            ("Kind of an item that needs attention."),
            [kind.value for kind in AttentionKind],
        ),
    ]
    subject: str
    message: str
    server_id: str | None = None
    item_kind: Annotated[str | None, Field(description="`kind`, as in the definitions.")] = None
    name: Annotated[str | None, Field(description="The item's name at its server.")] = None
    file: str | None = None
    path: Annotated[str | None, Field(description="JSON path in the file.")] = None
    login_for: Annotated[
        str | None,
        Field(description=("Owner of the missing login: `deployment`, `tenant` or `user`.")),
    ] = None
    tenant_id: str | None = None
    user_id: str | None = None
    since: datetime | None = None


class OverviewAnswer(AnswerModel, title="Overview"):
    """Replica health, recent calls, and items that need attention."""

    replica: ReplicaAnswer
    readiness: Annotated[
        ReadinessAnswer,
        Field(description="As in `/health/ready`; with `tenant_id` only the servers' states."),
    ]
    calls: Annotated[
        RecentCallsAnswer | None, Field(description="Only with `MCP_PROXY_CONSOLE`.")
    ] = None
    budgets: Annotated[
        list[TightBudgetAnswer] | None,
        Field(
            description=(
                "Budgets with the least left first, at most 100; only with `MCP_PROXY_CONSOLE`."
            )
        ),
    ] = None
    attention: Annotated[
        list[AttentionAnswer],
        Field(description=("At most 50 items of each `kind`, sorted by `kind`.")),
    ]
    attention_left_out: Annotated[int, Field(description="Number of further items.")]


MAX_BUDGETS_SHOWN = 100


class OverviewRoutes(Feature):
    """Shows the current state of this replica, with all its worker processes."""

    tag = Tag.STATUS

    def __init__(
        self,
        service: WholeService,
        publisher: RegistryPublisher,
        started_at: datetime,
    ) -> None:
        self._service = service
        self._publisher = publisher
        self._started_at = started_at

    @operation(
        "GET",
        "/internal/mcp/overview",
        "The current state of this replica.",
        right=OperatorRight.AUDIT,
    )
    async def get_overview(
        self, parsed: ParsedRequest[None], query: OverviewQuery
    ) -> OverviewAnswer:
        """Show the health of this replica.

        Shows this replica only: the state of each dependency, the calls of the last hour, nearly
        exhausted budgets, and items that need attention. `calls` and `budgets` are included only if
        `MCP_PROXY_CONSOLE` is true. With a right for one tenant, the figures are those of the
        tenant, and servers are shown with their state only. Requires the operator right `audit`.
        """
        tenant_id, service = query.tenant_id, self._service
        readiness, servers = await service.readiness(), await service.servers()
        if tenant_id is None:
            needed = for_all_tenants(servers, self._publisher, readiness.checks)
        else:
            readiness = _states_of_servers(readiness)
            configs = self._publisher.configuration.servers
            needed = for_tenant(servers, configs, tenant_id)
        attention, left_out = at_most(needed)
        figures = await service.calls(tenant_id)
        tight = await service.tight_budgets(tenant_id)
        return OverviewAnswer(
            replica=self._replica(shows_host=tenant_id is None),
            readiness=ReadinessAnswer.model_validate(readiness),
            calls=None if figures is None else _calls(figures),
            budgets=None if tight is None else [_budget(it) for it in tight[:MAX_BUDGETS_SHOWN]],
            attention=attention,
            attention_left_out=left_out,
        )

    def _replica(self, *, shows_host: bool) -> ReplicaAnswer:
        return ReplicaAnswer(
            host=socket.gethostname() if shows_host else None,
            version=VERSION,
            started_at=self._started_at,
            uptime_s=int((datetime.now(UTC) - self._started_at).total_seconds()),
        )


def _states_of_servers(readiness: Readiness) -> Readiness:
    checks = {
        name: {key: check[key] for key in ("status", "state")}
        for name, check in readiness.checks.items()
        if name.startswith("server:")
    }
    return Readiness(readiness.status, checks)


def _calls(figures: CallFigures) -> RecentCallsAnswer:
    whole = figures.whole
    by_server = sorted(figures.by_server.items(), key=lambda it: (-it[1].total, it[0] or ""))
    return RecentCallsAnswer(
        window_s=MINUTES * MINUTE_S,
        total=sum(it.total for it in figures.minutes),
        errors=sum(it.errors for it in figures.minutes),
        by_code=whole.all_codes,
        by_server=[
            ServerCallsAnswer(
                server_id=server_id,
                total=calls.total,
                errors=calls.errors,
                not_sent=calls.not_sent,
                p50_ms=_quantile_ms(calls, 0.5),
                p99_ms=_quantile_ms(calls, 0.99),
                per_minute=figures.per_minute[server_id],
            )
            for server_id, calls in by_server
        ],
        p50_ms=_quantile_ms(whole, 0.5),
        p99_ms=_quantile_ms(whole, 0.99),
        minutes=[
            MinuteCallsAnswer(at=datetime.fromtimestamp(at, UTC), total=total, errors=errors)
            for at, total, errors in figures.minutes
        ],
        complete=figures.is_complete,
    )


def _quantile_ms(calls: CallSum, share: float) -> float | None:
    seconds = calls.quantile_s(share)
    return None if seconds is None else round(seconds * 1000, 2)


def _budget(budget: TightBudget) -> TightBudgetAnswer:
    status = budget.status
    return TightBudgetAnswer(
        tenant_id=budget.tenant_id,
        name=status.name,
        unit=status.unit,
        limit=status.limit,
        remaining=status.remaining,
        reset_s=status.reset_s,
    )


MAX_OF_KIND = 50

_DOWN = (
    ServerState.RECONNECTING,
    ServerState.UNREACHABLE,
    ServerState.FAILED,
    ServerState.INVALID,
)

_SHOWN_ELSEWHERE = ("config", "preset", "definitions", "agents")
"""Checks of readiness whose problems have separate entries."""

_REASONS = ("problems", "problem", "failure", "reason", "file", "last_error")


def for_tenant(
    statuses: Iterable[ServerStatus], configs: Mapping[str, ServerConfig], tenant_id: str
) -> Iterator[AttentionAnswer]:
    """Yield the entries for operators of one tenant: no errors or logins of others."""
    for status in statuses:
        if _is_failing(status):
            yield _failing(status, error=None)
        waiting = _waiting(status, configs.get(status.server_id))
        if waiting is not None and waiting.tenant_id == tenant_id:
            yield waiting


def for_all_tenants(
    statuses: Iterable[ServerStatus],
    publisher: RegistryPublisher,
    checks: Mapping[str, CheckResult],
) -> Iterator[AttentionAnswer]:
    """Yield all entries that need attention."""
    configs = publisher.configuration.servers
    for status in statuses:
        if _is_failing(status):
            yield _failing(status, error=status.last_error)
        waiting = _waiting(status, configs.get(status.server_id))
        if waiting is not None:
            yield waiting
    yield from chain(_items(publisher), _files(publisher), _dependencies(checks))


def at_most(entries: Iterable[AttentionAnswer]) -> tuple[list[AttentionAnswer], int]:
    """Return the first MAX_OF_KIND of each kind, and the number of omitted ones."""
    counts: Counter[str] = Counter()
    shown: list[AttentionAnswer] = []
    left_out = 0
    for entry in entries:
        counts[entry.kind] += 1
        if counts[entry.kind] > MAX_OF_KIND:
            left_out += 1
        else:
            shown.append(entry)
    return shown, left_out


def _is_failing(status: ServerStatus) -> bool:
    if status.state in (ServerState.DISABLED, ServerState.LOGIN_REQUIRED):
        return False
    return status.state in _DOWN or status.stale


def _failing(status: ServerStatus, *, error: str | None) -> AttentionAnswer:
    state = status.state.value
    if status.state is ServerState.READY:
        message = "connected, but its lists could not be refreshed"
    else:
        message = f"its state is {state}"
    return AttentionAnswer(
        kind=AttentionKind.SERVER_FAILING,
        subject=status.server_id,
        message=message if error is None else f"{message}: {error}",
        server_id=status.server_id,
    )


def _waiting(status: ServerStatus, config: ServerConfig | None) -> AttentionAnswer | None:
    if status.state is not ServerState.LOGIN_REQUIRED or config is None or config.auth is None:
        return None
    login_for = (config.auth.discovery or config.auth).login_for
    caller = config.discovery_caller
    is_deployments = caller is None or login_for is LoginFor.DEPLOYMENT
    return AttentionAnswer(
        kind=AttentionKind.LOGIN_WAITING,
        subject=status.server_id,
        message=f"sign-in required: it uses the login of a {login_for.value}",
        server_id=status.server_id,
        login_for=login_for.value,
        tenant_id=None if caller is None or is_deployments else caller.tenant_id,
        user_id=caller.user_id if caller is not None and login_for is LoginFor.USER else None,
    )


def _items(publisher: RegistryPublisher) -> Iterator[AttentionAnswer]:
    preset_id = publisher.config.preset.preset_id
    for missing, reason in publisher.preset_state.missing:
        yield AttentionAnswer(
            kind=AttentionKind.ITEM_MISSING,
            subject=f"{missing.kind.value} {printable(missing.name[:QUOTE_CHARS])}",
            message=f"the preset {preset_id} names it: {reason.text}",
            server_id=missing.server_id,
            item_kind=missing.kind.value,
            name=missing.name,
        )
    for finding in publisher.definitions.findings.remarkable:
        if not (finding.quarantined or finding.differs or finding.hidden_by):
            continue
        kind = AttentionKind.ITEM_CHANGED
        message = reason_of(finding)
        if finding.quarantined:
            kind = AttentionKind.ITEM_QUARANTINED
            message += ", so it is neither listed nor callable"
        elif finding.hidden_by is not None:
            kind = AttentionKind.ITEM_GUARDED
        item = finding.key
        yield AttentionAnswer(
            kind=kind,
            subject=f"{item.kind.value} {printable(item.name[:QUOTE_CHARS])}",
            message=message,
            server_id=item.server_id,
            item_kind=item.kind.value,
            name=item.name,
        )


def _files(publisher: RegistryPublisher) -> Iterator[AttentionAnswer]:
    for problem in publisher.problems:
        yield AttentionAnswer(
            kind=AttentionKind.FILE_PROBLEM,
            subject=problem.file,
            message=problem.message,
            file=problem.file,
            path=problem.path,
        )
    last = publisher.last_reload
    since = None if last is None else last.at
    for file in publisher.config.retained_files:
        message = "invalid; its last valid content, if any, stays active"
        yield AttentionAnswer(
            kind=AttentionKind.CONFIG_RETAINED,
            subject=file,
            message=message,
            file=file,
            since=since,
        )
    if last is not None and not publisher.is_built:
        message = (
            "the last change could not be applied; the previous configuration stays active; see "
            "the log"
        )
        yield AttentionAnswer(
            kind=AttentionKind.CONFIG_RETAINED, subject="config", message=message, since=since
        )


def _dependencies(checks: Mapping[str, CheckResult]) -> Iterator[AttentionAnswer]:
    for name, check in checks.items():
        if name.startswith("server:") or name in _SHOWN_ELSEWHERE:
            continue
        if check["status"] != "ok":
            reasons = "; ".join(_reasons(check)) or "it reports a failure"
            yield AttentionAnswer(
                kind=AttentionKind.DEPENDENCY_DEGRADED, subject=name, message=reasons
            )
        if check.get("lost"):
            yield AttentionAnswer(
                kind=AttentionKind.RECORDS_LOST,
                subject=name,
                message=f"{check['lost']} records lost since the start",
            )


def _reasons(check: CheckResult) -> Iterator[str]:
    for key in _REASONS:
        value = check.get(key)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple):
            yield from map(str, value)
