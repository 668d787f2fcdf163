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
                "The figures, budgets and waiting logins of this tenant only, and of the servers "
                "nothing but their states. Without it those of all tenants."
            )
        ),
    ] = None


class AttentionKind(StrEnum):
    """What needs a person."""

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
    """The replica that answers; other replicas have figures of their own."""

    host: Annotated[
        str | None, Field(description="The name of its machine; not with `tenant_id`.")
    ] = None
    version: str
    started_at: datetime
    uptime_s: int


class ServerCallsAnswer(AnswerModel, title="ServerCalls"):
    """The calls of one server; without ``server_id`` those that went to none."""

    server_id: Annotated[
        str | None,
        Field(
            description=(
                "Left out for the gateway's own tools and for names that nothing has. `other` are "
                "the servers beyond the first 256 of a minute."
            )
        ),
    ] = None
    total: Annotated[int, Field(description="Calls that were sent to the server.")]
    errors: int
    not_sent: Annotated[
        int,
        Field(
            description="Calls for the server that were never sent to it, such as refused ones; no "
            "other figure of the server has them."
        ),
    ]
    p50_ms: float | None = None
    p99_ms: float | None = None
    per_minute: Annotated[
        list[int], Field(description="Those that ended in each minute, the oldest first.")
    ]


class MinuteCallsAnswer(AnswerModel, title="MinuteCalls"):
    """The calls that ended in one minute, which begins at ``at``."""

    at: datetime
    total: int
    errors: int


class RecentCallsAnswer(AnswerModel, title="RecentCalls"):
    """The calls that ended in the last hour, at this replica; times are within 8 %."""

    window_s: int
    total: int
    errors: Annotated[int, Field(description="Those with another code than `OK`.")]
    by_code: Annotated[
        dict[str, int],
        Field(title="CallsByCode", description="How many ended with each code, `OK` included."),
    ]
    by_server: Annotated[list[ServerCallsAnswer], Field(description="The most called first.")]
    p50_ms: float | None = None
    p99_ms: float | None = None
    minutes: Annotated[list[MinuteCallsAnswer], Field(description="All 60, the oldest first.")]
    complete: Annotated[
        bool,
        Field(
            description=(
                "`false`: a minute had calls of more than 256 pairs of tenant and server, so the "
                "figures of a single tenant may lack some."
            )
        ),
    ]


class TightBudgetAnswer(AnswerModel, title="TightBudget"):
    """A budget of which a call left a fifth or less, and whose window has not ended yet."""

    tenant_id: str
    name: str
    unit: LimitUnit
    limit: int
    remaining: int
    reset_s: int


class AttentionAnswer(AnswerModel, title="AttentionItem"):
    """Something that needs a person: ``subject`` is what it is about, in words or as an id."""

    kind: Annotated[
        str,
        open_names("AttentionKind", "What needs a person.", [kind.value for kind in AttentionKind]),
    ]
    subject: str
    message: str
    server_id: str | None = None
    item_kind: Annotated[str | None, Field(description="As `kind` of the definitions.")] = None
    name: Annotated[str | None, Field(description="The name of the item at its server.")] = None
    file: str | None = None
    path: Annotated[str | None, Field(description="A JSON path in the file.")] = None
    login_for: Annotated[
        str | None, Field(description="Whose login is missing: `deployment`, `tenant` or `user`.")
    ] = None
    tenant_id: str | None = None
    user_id: str | None = None
    since: datetime | None = None


class OverviewAnswer(AnswerModel, title="Overview"):
    """How this replica is, what was called, and what needs a person."""

    replica: ReplicaAnswer
    readiness: Annotated[
        ReadinessAnswer,
        Field(description="As `/health/ready`; with `tenant_id` only states of servers."),
    ]
    calls: Annotated[
        RecentCallsAnswer | None, Field(description="Only with `MCP_PROXY_CONSOLE`.")
    ] = None
    budgets: Annotated[
        list[TightBudgetAnswer] | None,
        Field(description="The tightest first, 100 at most; only with `MCP_PROXY_CONSOLE`."),
    ] = None
    attention: Annotated[
        list[AttentionAnswer], Field(description="At most 50 of each `kind`, in this order.")
    ]
    attention_left_out: Annotated[int, Field(description="How many more there are.")]
