"""Query and answer of the audit.

The docstrings of these classes are part of the OpenAPI document: operators read them.
"""

from dataclasses import replace
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from mcp_tools_proxy.api.openapi.answer_models import AnswerModel
from mcp_tools_proxy.audit.record_search import RecordFilter, as_timestamp
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.wire.identifiers import Identifier

MAX_RECORDS = 1000
"""Records in one answer at most."""

_Text = Annotated[str | None, Field(max_length=1024)]


def _has_utc_time(time: datetime) -> datetime:
    """Check that a time has a form in UTC: one of the year 1 may not. Raises ValueError."""
    try:
        as_timestamp(time)
    except OverflowError:
        raise ValueError("should be a time in UTC") from None
    return time


_Time = Annotated[AwareDatetime, AfterValidator(_has_utc_time)]


class RecordQuery(BaseModel):
    """Query of records, whenever they are made; all that is given has to hold."""

    model_config = ConfigDict(extra="forbid")
    """A filter whose name is misspelt must not show what it should have left out."""

    tenant_id: Annotated[
        Identifier | None,
        Field(description="Only this tenant's; without it those of all tenants."),
    ] = None
    user_id: Identifier | None = None
    agent: Identifier | None = None
    tool: Annotated[_Text, Field(description="The name of a tool, prompt or resource.")] = None
    server: Annotated[_Text, Field(description="The id of a downstream server.")] = None
    doc_id: Identifier | None = None
    code: Annotated[_Text, Field(description="An error code, `OK` or `CANCELLED`.")] = None
    event: Annotated[_Text, Field(description="The kind of record, as `tool.call`.")] = None
    trace_id: _Text = None
    token_id: _Text = None

    @property
    def wanted(self) -> RecordFilter:
        """What records have to have."""
        return RecordFilter(**self.model_dump(include={*RecordQuery.model_fields}))


class AuditQuery(RecordQuery):
    """Query of GET /internal/mcp/audit; all that is given has to hold."""

    since: Annotated[
        _Time | None,
        Field(description="Not older than this, in ISO 8601 with a time zone."),
    ] = None
    until: Annotated[_Time | None, Field(description="Not newer than this.")] = None
    cursor: Annotated[
        int | None, Field(ge=1, description="The `next_cursor` of the page before.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=MAX_RECORDS, description="Records in the answer.")] = 100
    unauthenticated: Annotated[
        bool | None,
        Field(
            description="`true`: the records of requests that were refused without a valid token, "
            "which have numbers of their own, instead of all others. The default is `true` with "
            "`code=UNAUTHENTICATED`, otherwise `false`."
        ),
    ] = None

    @property
    def is_apart(self) -> bool:
        """Whether records of requests without a valid token are wanted."""
        if self.unauthenticated is None:
            return self.code == Unauthenticated.code
        return self.unauthenticated

    @property
    def wanted(self) -> RecordFilter:
        """What records have to have."""
        return replace(
            super().wanted,
            since=None if self.since is None else as_timestamp(self.since),
            until=None if self.until is None else as_timestamp(self.until),
        )


class AuditRecord(AnswerModel):
    """The record of one attempt, as its log line has it."""

    timestamp: str
    level: str
    event: str
    payload: dict[str, object]
    trace_id: str | None
    seq: Annotated[int, Field(description="The record's number.")]
    mac: Annotated[
        str | None, Field(description="Its signature, where the gateway signs records.")
    ] = None


class AuditAnswer(AnswerModel, title="AuditRecords"):
    """Records, the newest first."""

    records: list[AuditRecord]
    next_cursor: Annotated[
        int | None, Field(description="The `cursor` of the next page; only where there is one.")
    ] = None


class RulePlace(AnswerModel):
    """Where a rule stands: a file and a JSON path in it; of a setting its variable."""

    file: str
    path: str


class ExplainedCheck(AnswerModel):
    """One check of a call: `pass`, `not_reached`, `not_checked`, or the code of a refusal."""

    check: str
    verdict: str
    message: Annotated[str | None, Field(description="What the caller would read.")] = None
    reason: Annotated[str | None, Field(description="What only operators see.")] = None
    rule: RulePlace | None = None


class SentCall(AnswerModel):
    """What would be sent where: names, no values."""

    to: Annotated[str, Field(description="`server`, `documents` or `retrieval`.")]
    server_id: str | None = None
    transport: str | None = None
    name: str | None = None
    arguments: list[str]


class ExplainedBudget(AnswerModel):
    """A budget that applies to the call, and what is left of it."""

    name: str
    unit: str
    limit: int
    remaining: int
    reset_s: int
    window_s: int
    rule: RulePlace


class ExplainAnswer(AnswerModel, title="Explanation"):
    """What would happen to a call."""

    decision: Annotated[
        str,
        Field(
            description="`pass`, the code that it would end in, or `not_checked` where only the "
            "call itself shows it."
        ),
    ]
    check: Annotated[str | None, Field(description="The check that decides.")] = None
    rule: RulePlace | None = None
    checks: Annotated[list[ExplainedCheck], Field(description="In the order of a call.")]
    sends: SentCall | None = None
    budgets: list[ExplainedBudget]
    preset: str | None = None
    generation: int
    trace_id: str
