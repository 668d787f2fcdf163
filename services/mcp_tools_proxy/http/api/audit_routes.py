"""Shows audit records to operators with the right ``audit``: past ones and a stream of new ones."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated

import anyio
from fastapi import Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import (
    AuditUnavailable,
    ProxyError,
    ShuttingDown,
    Unauthenticated,
)
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.gateway.service_audit import ServiceAudit
from mcp_tools_proxy.http.api.answer_models import AnswerModel
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.openapi import (
    Answer,
    Responses,
    SharedAnswer,
    Tag,
    errors_of,
    refusal,
)
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.body import disconnected
from mcp_tools_proxy.http.request_headers import TRACE_HEADER
from mcp_tools_proxy.http.request_refusals import RequestRefusals, add_to_operation
from mcp_tools_proxy.http.responses import EVENT_STREAM, PING, PING_S, STREAM_HEADERS, json_response
from mcp_tools_proxy.telemetry.audit.audit_trail import LostRecords, RecordFeed
from mcp_tools_proxy.telemetry.audit.record_search import RecordFilter, as_timestamp
from mcp_tools_proxy.wire.identifiers import Identifier

MAX_RECORDS = 1000
"""Maximum number of records in an answer."""

_Text = Annotated[str | None, Field(max_length=1024)]


def _has_utc_time(time: datetime) -> datetime:
    """Check that a time can be converted to UTC; one in year 1 may fail. Raises ValueError."""
    try:
        as_timestamp(time)
    except OverflowError:
        raise ValueError("should be a time in UTC") from None
    return time


_Time = Annotated[AwareDatetime, AfterValidator(_has_utc_time)]


class RecordQuery(BaseModel):
    """Query of records, whenever they are made; all that is given has to hold."""

    model_config = ConfigDict(extra="forbid")
    """A misspelt filter must not return the records that it was meant to exclude."""

    tenant_id: Annotated[
        Identifier | None,
        Field(description="Tenant whose records are returned. Default: all tenants."),
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
    run_id: Annotated[Identifier | None, Field(description="Id of a run, of any user.")] = None

    @property
    def wanted(self) -> RecordFilter:
        """The filter of the query."""
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
        int,
        Field(
            ge=1,
            le=MAX_RECORDS,
            description="Maximum number of records to return. With several workers, all records of "
            "the last microsecond are returned, even beyond it.",
        ),
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
        """Whether records of requests without a valid token are requested."""
        if self.unauthenticated is None:
            return self.code == Unauthenticated.code
        return self.unauthenticated

    @property
    def wanted(self) -> RecordFilter:
        """The filter of the query."""
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
    seq: Annotated[int, Field(description="The record's number in its audit.")]
    mac: Annotated[
        str | None, Field(description="The record's signature, if the gateway signs records.")
    ] = None
    worker: Annotated[
        int | None,
        Field(description="The worker process whose audit it is in, if there are several."),
    ] = None


class AuditAnswer(AnswerModel, title="AuditRecords"):
    """Audit records, newest first."""

    records: list[AuditRecord]
    next_cursor: Annotated[
        int | None, Field(description="The `cursor` of the next page, if there is one.")
    ] = None


CHECK_S = 0.2
"""Seconds between checks of the sender's right. With the check of the tokens file, a revoked token
ends its stream within a second.
"""

LAST_EVENT_S = 0.5
"""Seconds for sending the last event, so that a client that does not read cannot delay a stop."""

CANCELLED = "CANCELLED"
OK = "OK"


class RecordStream(StreamingResponse):
    """Sends records until the client leaves, ``check`` raises ProxyError, or ``stopping`` returns.

    ``on_end`` receives the code of the end and the number of sent records.
    """

    def __init__(
        self,
        audit: ServiceAudit,
        feed: RecordFeed,
        *,
        check: Callable[[], Awaitable[object]],
        stopping: Callable[[], Awaitable[None]],
        on_end: Callable[[str, int], None],
        headers: dict[str, str],
    ) -> None:
        super().__init__(
            (),
            media_type=EVENT_STREAM,
            headers={**STREAM_HEADERS, "Connection": "close", **headers},
        )
        self._audit = audit
        self._feed = feed
        self._check = check
        self._stopping = stopping
        self._on_end = on_end
        self._sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream until it ends."""
        code = CANCELLED
        try:
            with self._audit.trail.following(self._feed):
                await send(
                    {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                )
                code = await self._send_until_over(receive, send)
            if code != OK:
                with anyio.move_on_after(LAST_EVENT_S):
                    end = _frame("end", f'{{"reason":"{code}"}}')
                    await send({"type": "http.response.body", "body": end})
        finally:
            self._on_end(code, self._sent)

    async def _send_until_over(self, receive: Receive, send: Send) -> str:
        """Send records; return the code of the end, OK if the client has left."""
        code = OK

        async with anyio.create_task_group() as group:

            async def end_by(wait: Callable[[], Awaitable[str]]) -> None:
                nonlocal code
                code = await wait()
                group.cancel_scope.cancel()

            group.start_soon(end_by, self._refused)
            group.start_soon(end_by, self._stopped)
            group.start_soon(disconnected, receive, group.cancel_scope.cancel)
            if self._audit.has_others:
                group.start_soon(self._audit.follow_others, self._feed)
            await self._send_records(send)
        return code

    async def _refused(self) -> str:
        while True:
            await anyio.sleep(CHECK_S)
            try:
                await self._check()
            except ProxyError as error:
                return error.code

    async def _stopped(self) -> str:
        await self._stopping()
        return ShuttingDown.code

    async def _send_records(self, send: Send) -> None:
        """Send records and losses until cancelled; a comment at the start and after silence."""
        frame = PING
        while True:
            await send({"type": "http.response.body", "body": frame, "more_body": True})
            frame = PING
            with anyio.move_on_after(PING_S):
                frame = self._next_frame(await self._feed.next())

    def _next_frame(self, found: str | LostRecords) -> bytes:
        if isinstance(found, LostRecords):
            return _frame("lost", f'{{"records":{found.records}}}')
        self._sent += 1
        return _frame("record", found)


def _frame(event: str, data: str) -> bytes:
    return f"event: {event}\r\ndata: {data}\r\n\r\n".encode("ascii")


MAX_STREAMS = 16
"""Limit of open record streams of a process."""

MAX_OF_TENANT = 4
"""Limit of streams for operators of one tenant, as one tenant had used all 16."""

STREAM_ENDED = "audit.stream_ended"


STREAM_RESPONSES: Responses = {
    200: Answer("The event stream.", text=EVENT_STREAM),
    **errors_of(401, 403, 422, 500),
    503: SharedAnswer(
        "NoStream",
        refusal(
            "NO_ROOM: the maximum number of streams is open. SHUTTING_DOWN: the gateway is "
            "stopping; other replicas have their own records."
        ),
    ),
}


UNAVAILABLE = SharedAnswer(
    "AuditUnavailable",
    refusal("AUDIT_UNAVAILABLE: the audit file cannot be read at the moment."),
)


class AuditRoutes(Feature):
    """Shows the records of the audit files, or without any the latest in memory.

    A process streams the new records of the service to at most MAX_STREAMS readers.
    """

    tag = Tag.AUDIT

    def __init__(
        self,
        audit: ServiceAudit,
        gate: OperatorGate,
        lifecycle: Lifecycle,
        refusals: RequestRefusals,
    ) -> None:
        self._audit = audit
        self._gate = gate
        self._lifecycle = lifecycle
        self._refusals = refusals

    @operation(
        "GET",
        "/internal/mcp/audit",
        "The records.",
        model=AuditAnswer,
        errors={503: UNAVAILABLE},
        right=OperatorRight.AUDIT,
    )
    async def list_audit_records(self, parsed: ParsedRequest[None], query: AuditQuery) -> Response:
        """Search the audit log.

        Returns audit records, newest first: from the audit files of this replica's workers, or
        without files the last 1,000 records of each worker. Requires the operator right `audit`.
        """
        try:
            page = await self._audit.page(
                query.wanted,
                cursor=query.cursor,
                limit=query.limit,
                unauthenticated=query.is_apart,
            )
        except OSError as error:
            raise AuditUnavailable(
                "the audit file cannot be read now; try again later", reason=error.strerror
            ) from error
        # 1,000 records in their logged form, some with a null
        answer = without_none({"records": page.records, "next_cursor": page.next_cursor})
        return json_response(answer, headers={TRACE_HEADER: parsed.trace_id})

    @operation(
        "GET",
        "/internal/mcp/calls/stream",
        responses=STREAM_RESPONSES,
        token_for=OperatorRight.AUDIT,
    )
    async def stream_audit_records(
        self, parsed: ParsedRequest[None], query: RecordQuery
    ) -> Response:
        """Stream audit records.

        Server-sent events with this replica's new audit records; those of other workers arrive up
        to half a second later. `record` contains a record in the format of the audit log, without
        `seq` and `mac`, which are assigned when it is written. `lost` reports how many `records` a
        slow reader missed at this point. `end` closes the stream; its `reason` is an error code,
        such as UNAUTHENTICATED or SHUTTING_DOWN. At most 16 streams can be open at each worker, 4
        of them by operators of one tenant. The right is checked at least once a second. A comment
        is sent every 15 s. Requires the operator right `audit`.
        """
        operator = await self._gate.check(parsed, OperatorRight.AUDIT, tenant_id=query.tenant_id)
        self._lifecycle.check_serving()
        self._check_capacity(operator.tenant_id)
        feed = RecordFeed(query.wanted, reader_tenant=operator.tenant_id)
        # the response follows the trail before any other await, so a 17th stream cannot start
        return RecordStream(
            self._audit,
            feed,
            check=partial(self._gate.admit, parsed, OperatorRight.AUDIT, tenant_id=query.tenant_id),
            stopping=self._lifecycle.draining,
            on_end=partial(self._end, parsed, feed),
            headers={TRACE_HEADER: parsed.trace_id},
        )

    def _check_capacity(self, tenant_id: str | None) -> None:
        if self._audit.trail.followers >= MAX_STREAMS:
            raise CapacityExceeded(
                f"{MAX_STREAMS} streams of records are open at this worker process, which is the "
                "limit; close one, or try again later"
            )
        if tenant_id is not None and self._audit.trail.followers_of(tenant_id) >= MAX_OF_TENANT:
            raise CapacityExceeded(
                f"operators of this tenant have {MAX_OF_TENANT} streams of records open at this "
                "worker process, which is the limit; close one, or try again later"
            )

    def _end(self, parsed: ParsedRequest[None], feed: RecordFeed, code: str, sent: int) -> None:
        scope = parsed.request.scope
        add_to_operation(scope, STREAM_ENDED, records=sent, lost=feed.lost)
        self._refusals.record_operation(scope, code, parsed.trace_id)
