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
        Field(description="Tenant whose documents are listed. Default: all tenants."),
    ] = None
    user_id: Identifier | None = None
    agent: Identifier | None = None
    tool: Annotated[_Text, Field(description="Name of a tool, prompt or resource.")] = None
    server: Annotated[_Text, Field(description="Id of a downstream server.")] = None
    doc_id: Identifier | None = None
    code: Annotated[_Text, Field(description="An error code, `OK` or `CANCELLED`.")] = None
    event: Annotated[_Text, Field(description="Kind of record, such as `tool.call`.")] = None
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
        Field(description="Earliest time, in ISO 8601 with a time zone."),
    ] = None
    until: Annotated[_Time | None, Field(description="Latest time, in the same format.")] = None
    cursor: Annotated[
        int | None, Field(ge=1, description="The `next_cursor` of the previous page.")
    ] = None
    limit: Annotated[
        int, Field(ge=1, le=MAX_RECORDS, description=("Maximum number of records to return."))
    ] = 100
    unauthenticated: Annotated[
        bool | None,
        Field(
            description="`true` returns the records of requests refused without a valid token "
            "instead of all others. They are numbered separately. Default: `true` "
            "with `code=UNAUTHENTICATED`, otherwise `false`."
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
    """An audit record, as in its log line."""

    timestamp: str
    level: str
    event: str
    payload: dict[str, object]
    trace_id: str | None
    seq: Annotated[int, Field(description="The record's number.")]
    mac: Annotated[
        str | None, Field(description="The record's signature, if the gateway signs records.")
    ] = None


class AuditAnswer(AnswerModel, title="AuditRecords"):
    """Audit records, newest first."""

    records: list[AuditRecord]
    next_cursor: Annotated[
        int | None, Field(description="The `cursor` of the next page, if there is one.")
    ] = None


class RulePlace(AnswerModel):
    """Location of a rule: a file and a JSON path in it, or the variable of a setting."""

    file: str
    path: str


class ExplainedCheck(AnswerModel):
    """A check of a call; `verdict`: `pass`, `not_reached`, `not_checked`, or an error code."""

    check: str
    verdict: str
    message: Annotated[str | None, Field(description="Message to the caller.")] = None
    reason: Annotated[str | None, Field(description="Reason shown only to operators.")] = None
    rule: RulePlace | None = None


class SentCall(AnswerModel):
    """Target and names of what would be sent, without values."""

    to: Annotated[str, Field(description="`server`, `documents` or `retrieval`.")]
    server_id: str | None = None
    transport: str | None = None
    name: str | None = None
    arguments: list[str]


class ExplainedBudget(AnswerModel):
    """A budget of the call, and its remainder."""

    name: str
    unit: str
    limit: int
    remaining: int
    reset_s: int
    window_s: int
    rule: RulePlace


class ExplainAnswer(AnswerModel, title="Explanation"):
    """How a call would be handled."""

    decision: Annotated[
        str,
        Field(
            description="`pass`, the error code of the call, or `not_checked` if only the call "
            "itself can show it."
        ),
    ]
    check: Annotated[str | None, Field(description="The deciding check.")] = None
    rule: RulePlace | None = None
    checks: Annotated[
        list[ExplainedCheck],
        Field(description=("Checks in the order in which a call passes them.")),
    ]
    sends: SentCall | None = None
    budgets: list[ExplainedBudget]
    preset: str | None = None
    generation: int
    trace_id: str
