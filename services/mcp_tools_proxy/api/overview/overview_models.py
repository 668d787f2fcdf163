"""Query and answer of the overview.

The docstrings of these classes are part of the OpenAPI document: operators read them.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from mcp_tools_proxy.api.limits.limit_models import LimitUnit
from mcp_tools_proxy.api.openapi.answer_models import AnswerModel, ReadinessAnswer
from mcp_tools_proxy.api.openapi.shared_schemas import open_names
from mcp_tools_proxy.wire.identifiers import Identifier


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
