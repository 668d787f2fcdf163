"""Shows operators with the right ``audit`` the report of a run."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from mcp_tools_proxy.domain.errors import AuditUnavailable, InvalidRequest, RouteNotFound
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.gateway.service_audit import ServiceAudit
from mcp_tools_proxy.http.api.audit_routes import MAX_RECORDS, UNAVAILABLE
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.openapi import SharedAnswer, Tag, refusal
from mcp_tools_proxy.http.api.route_builder import Feature, operation, response_of
from mcp_tools_proxy.http.api.run_report import (
    APPROVAL_EVENTS,
    RunOwner,
    RunRecords,
    RunReport,
    is_call,
    report_of,
)
from mcp_tools_proxy.telemetry.audit.record_search import Record, RecordFilter
from mcp_tools_proxy.wire.identifiers import Identifier
from mcp_tools_proxy.wire.text import quote

PATH = "/internal/mcp/runs"

MAX_SEARCHES = 4
"""Searches of the audit for one report, each of at most 64 MiB."""

MAX_OWNERS = 20
"""Owners named in the refusal of an id that several callers use."""

_NO_RUN = SharedAnswer(
    "NoSuchRun",
    refusal(
        "NOT_FOUND: this replica has no records of such a run. Its audit may not keep them as "
        "long, or the caller is another one."
    ),
)


class RunPath(BaseModel):
    """The run that a path names."""

    run_id: Annotated[Identifier, Field(description="The id that the runtime gave to the run.")]


class RunQuery(BaseModel):
    """Query of a run's report. A run belongs to one caller, whose id for it is not unique."""

    model_config = ConfigDict(extra="forbid")

    tenant_id: Annotated[Identifier | None, Field(description="The run's tenant.")] = None
    user_id: Annotated[Identifier | None, Field(description="The run's user.")] = None
    token_id: Annotated[
        str | None,
        Field(
            max_length=1024,
            description="Only for runs of a token that proves no user, or operators.",
        ),
    ] = None
    issuer: Annotated[str | None, Field(max_length=1024)] = None
    subject: Annotated[
        str | None, Field(max_length=1024, description="Like `token_id`, for a JWT.")
    ] = None
    stand_in: Annotated[
        bool | None, Field(description="Whether an operator acted for the user.")
    ] = None
    format: Annotated[
        Literal["json"] | None, Field(description="`json` sends the report as a file.")
    ] = None

    def names(self, owner: RunOwner) -> bool:
        """Return whether the query is the owner's own: without a user, it admits others too."""
        given = self.model_dump(exclude={"format"}, exclude_none=True)
        return owner.query == {name: _as_query(value) for name, value in given.items()}

    def selects(self, owner: RunOwner) -> bool:
        """Return whether the query admits an owner."""
        token = dict(owner.token)
        return (
            self.tenant_id in (None, owner.tenant_id)
            and self.user_id in (None, owner.user_id)
            and self.stand_in in (None, owner.stand_in)
            and all(
                wanted is None or token.get(name) == wanted
                for name, wanted in (
                    ("token_id", self.token_id),
                    ("issuer", self.issuer),
                    ("subject", self.subject),
                )
            )
        )


class RunRoutes(Feature):
    """Shows runs, as the audit of this replica's workers has them."""

    tag = Tag.AUDIT

    def __init__(self, audit: ServiceAudit) -> None:
        self._audit = audit

    @operation(
        "GET",
        f"{PATH}/{{run_id:path}}",
        "The run.",
        model=RunReport,
        errors={404: _NO_RUN, 503: UNAVAILABLE},
        path_parameters=RunPath,
        right=OperatorRight.AUDIT,
    )
    async def get_run(self, parsed: ParsedRequest[None], query: RunQuery) -> Response:
        """Show a run.

        Returns what a run read, wrote, sent and was refused, who approved it, and its calls in
        order, from the audit records that this replica has. Covers the newest 1,000 records; with
        `incomplete`, more exist. Refusals that the audit only counts are missing. The same id of
        two callers is two runs: INVALID_REQUEST names them in `details.owners`, each with the query
        that selects it. Requires the operator right `audit`.
        """
        run_id = str(parsed.request.path_params["run_id"])
        found = await self._found(run_id, query)
        report = report_of(run_id, found, await self._approvals(run_id, found))
        headers = {}
        if query.format is not None:
            headers["Content-Disposition"] = 'attachment; filename="run.json"'
        return response_of(report, parsed, headers=headers)

    async def _found(self, run_id: str, query: RunQuery) -> RunRecords:
        """Return the records of one run. Raises RouteNotFound, InvalidRequest, AuditUnavailable."""
        wanted = RecordFilter(tenant_id=query.tenant_id, user_id=query.user_id, run_id=run_id)
        records, is_complete = await self._search(wanted)
        by_owner: dict[RunOwner, list[Record]] = {}
        for record in filter(is_call, records):
            payload = record["payload"]
            owner = RunOwner.of(payload if isinstance(payload, dict) else {})
            if query.selects(owner):
                by_owner.setdefault(owner, []).append(record)
        if len(by_owner) > 1:
            by_owner = {it: calls for it, calls in by_owner.items() if query.names(it)} or by_owner
        if len(by_owner) > 1:
            raise InvalidRequest(
                "user_id: several callers have a run with this id; name one of details.owners",
                details={"field": "user_id", "owners": [*_queries(by_owner)]},
            )
        for owner, calls in by_owner.items():
            return RunRecords(owner=owner, calls=calls, is_complete=is_complete)
        raise RouteNotFound(
            f"this replica has no records of the run {quote(run_id)}; check its tenant and user, "
            "the other replicas, and how long the audit keeps records (MCP_PROXY_AUDIT)"
            + ("" if is_complete else "; older records exist that were not searched")
        )

    async def _approvals(self, run_id: str, run: RunRecords) -> Sequence[Record]:
        """Return the records of the run's approvals."""
        found: list[Record] = []
        if (since := run.since) is not None:
            for event in APPROVAL_EVENTS:
                wanted = RecordFilter(
                    tenant_id=run.owner.tenant_id, run_id=run_id, event=event, since=since
                )
                found += (await self._search(wanted))[0]
        return run.approvals_in(found)

    async def _search(self, wanted: RecordFilter) -> tuple[Sequence[Record], bool]:
        """Return the newest matching records, and whether these are all."""
        found: list[Record] = []
        cursor: int | None = None
        for _ in range(MAX_SEARCHES):
            try:
                page = await self._audit.page(wanted, cursor=cursor, limit=MAX_RECORDS - len(found))
            except OSError as error:
                raise AuditUnavailable(
                    "the audit file cannot be read now; try again later", reason=error.strerror
                ) from error
            found += page.records
            cursor = page.next_cursor
            if cursor is None or len(found) >= MAX_RECORDS:
                break
        return found, cursor is None


def _as_query(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _queries(owners: dict[RunOwner, list[Record]]) -> Iterator[dict[str, str]]:
    for owner, _ in zip(owners, range(MAX_OWNERS), strict=False):
        yield owner.query
