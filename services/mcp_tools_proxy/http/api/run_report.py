"""The report of a run, built from its audit records alone."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, FAILURES
from mcp_tools_proxy.domain.document import page_ranges
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.outcome import CANCELLED
from mcp_tools_proxy.domain.run import Label
from mcp_tools_proxy.http.api.answer_models import AnswerModel
from mcp_tools_proxy.telemetry.audit.record_search import (
    NAME_KEYS,
    SERVER_KEYS,
    Record,
    as_timestamp,
)
from mcp_tools_proxy.telemetry.call_events import CALL_EVENTS

APPROVAL_EVENTS = ("approval.asked", "approval.decided", "approval.used")
"""Records of approvals; that of a decision belongs to the person who decides."""

APPROVAL_ID = "approval_id"

MAX_PAGES = 10_000
"""Pages of one range that are merged."""

_PENDING = "APPROVAL_PENDING"
_TOKEN_KEYS = ("token_id", "issuer", "subject")
_WRITES = frozenset({Label.WRITES, Label.DESTRUCTIVE})


class RunOwner(NamedTuple):
    """The caller whose run it is, as records name it; the same parts as in ``run_key``.

    ``token`` identifies a token that proves no user, or the operator who acted for the user.
    """

    tenant_id: str
    user_id: str
    stand_in: bool = False
    token: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, payload: Mapping[str, object]) -> "RunOwner":
        """Return the owner of a call's run."""
        user_id, stand_in = str(payload.get("user_id") or ""), bool(payload.get("stand_in"))
        is_user = bool(user_id) and not (stand_in or payload.get("user_unproved"))
        token = tuple((it, str(payload[it])) for it in _TOKEN_KEYS if it in payload)
        tenant_id = str(payload.get("tenant_id") or "")
        return cls(tenant_id, user_id, stand_in, () if is_user else token)

    @property
    def query(self) -> dict[str, str]:
        """The query of the report that selects this owner."""
        named = {"tenant_id": self.tenant_id, "user_id": self.user_id, **dict(self.token)}
        given = {name: value for name, value in named.items() if value}
        return given | {"stand_in": str(self.stand_in).lower()}


Outcome = Annotated[
    Literal["ok", "refused", "failed", "pending", "cancelled"],
    Field(
        title="RunCallOutcome",
        description="`refused`: not made. `failed`: by the server or the gateway. `pending`: it "
        "waits for an approval.",
    ),
]


class RunPolicy(AnswerModel):
    """A policy that applied to a call, and its message."""

    id: str
    mode: str | None = None
    message: str | None = None


PageRange = Annotated[list[int], Field(min_length=2, max_length=2)]


class RunDocument(AnswerModel):
    """A document that was read: ``pages`` are ranges of first and last page."""

    doc_id: str
    version: str | None = None
    pages: list[PageRange] | None = None
    untrusted: Literal[True] | None = None


class ReportedCall(AnswerModel, title="RunCall"):
    """A call of the run."""

    number: Annotated[int | None, Field(description="Its number in the run, if it was made.")] = (
        None
    )
    at: Annotated[str, Field(description="The time of its start.")]
    duration_ms: float | None = None
    kind: str
    name: str
    server_id: str | None = None
    agent: str | None = None
    labels: list[str]
    documents: list[RunDocument]
    outcome: Outcome
    code: str
    check: str | None = None
    reason: Annotated[str | None, Field(description="Reason shown only to operators.")] = None
    policies: list[RunPolicy]
    approval_id: str | None = None
    tokens: int | None = None
    replayed: Literal[True] | None = None
    trace_id: str | None = None
    recorded_at: Annotated[str, Field(description="The time of its record, with its `seq`.")]
    seq: int
    worker: int | None = None


class RunApproval(AnswerModel):
    """A step of an approval: it was asked for, decided or used."""

    at: str
    event: str
    approval_id: str
    decision: str | None = None
    by: Annotated[str | None, Field(description="The person or token.")] = None
    policy_ids: list[str]


class RunTool(AnswerModel):
    """A tool, prompt or resource, and the number of its calls that succeeded and that did not."""

    name: str
    kind: str
    server_id: str | None = None
    ok: int
    failed: Annotated[int, Field(description="Calls that were made without a success.")]


class RunRefusal(AnswerModel):
    """A reason for which calls were refused."""

    code: str
    check: str | None = None
    policy_ids: list[str]
    calls: int


class RunSums(AnswerModel):
    """Sums of a run. ``duration_ms`` is the time from its first start to its last end."""

    calls: int
    refused: int
    failed: int
    tokens: int
    duration_ms: float


class RunReport(AnswerModel):
    """What a run read, wrote, sent and was refused, and its calls in order."""

    run_id: str
    tenant_id: str
    user_id: str | None = None
    token_id: str | None = None
    issuer: str | None = None
    subject: str | None = None
    stand_in: Annotated[
        Literal[True] | None, Field(description="An operator acted for the user.")
    ] = None
    agents: list[str]
    sums: RunSums
    documents: Annotated[list[RunDocument], Field(description="All documents that were read.")]
    read: Annotated[list[RunTool], Field(description="Tools that read.")]
    written: Annotated[list[RunTool], Field(description="Tools that wrote or destroyed.")]
    sent: Annotated[list[RunTool], Field(description="Tools that sent data.")]
    refused: list[RunRefusal]
    approvals: list[RunApproval]
    calls: list[ReportedCall]
    incomplete: Annotated[
        Literal[True] | None,
        Field(description="More records exist, or could not be searched: older ones are missing."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecords:
    """The records of one run: those of calls, and of approvals."""

    owner: RunOwner
    calls: Sequence[Record]
    is_complete: bool

    @property
    def since(self) -> str | None:
        """The start of its first call if a call asked for an approval, or used one.

        The record that an approval was asked for is older than that of its call.
        """
        if not any(_is_of_approval(_payload(it)) for it in self.calls):
            return None
        return min(_began_at(it) for it in self.calls)

    def approvals_in(self, records: Sequence[Record]) -> list[Record]:
        """Return the records of its own approvals.

        Those of a decision name the person who decides, so they are found by the approval's id,
        which the run's own records name.
        """
        own = [it for it in records if RunOwner.of(_payload(it)) == self.owner]
        asked = [it for it in own if it.get("event") == APPROVAL_EVENTS[0]]
        ids = {_payload(it).get(APPROVAL_ID) for it in (*self.calls, *asked)} - {None}
        return [it for it in records if _payload(it).get(APPROVAL_ID) in ids]


def _began_at(record: Record) -> str:
    """Return the start of a call, rounded down."""
    duration_ms = _number(_payload(record).get("duration_ms")) or 0.0
    return _earlier(str(record.get("timestamp", "")), duration_ms + 1.0)


def _is_of_approval(payload: Mapping[str, object]) -> bool:
    return payload.get("code") == _PENDING or APPROVAL_ID in payload


def is_call(record: Record) -> bool:
    """Return whether a record is one of a call."""
    return record.get("event") in CALL_EVENTS


def report_of(run_id: str, run: RunRecords, approvals: Iterable[Record]) -> RunReport:
    """Build the report of a run."""
    calls = _in_order([_call(it) for it in run.calls])
    made = [it for it in calls if it.number is not None]
    token = dict(run.owner.token)
    return RunReport(
        run_id=run_id,
        tenant_id=run.owner.tenant_id,
        user_id=run.owner.user_id or None,
        token_id=token.get("token_id"),
        issuer=token.get("issuer"),
        subject=token.get("subject"),
        stand_in=True if run.owner.stand_in else None,
        agents=[*dict.fromkeys(it.agent for it in calls if it.agent is not None)],
        sums=_sums(calls),
        documents=_documents(calls),
        read=_tools(made, frozenset({Label.READS_PRIVATE, Label.READS_UNTRUSTED})),
        written=_tools(made, _WRITES),
        sent=_tools(made, frozenset({Label.SENDS})),
        refused=_refusals(calls),
        approvals=sorted(map(_approval, approvals), key=lambda it: it.at),
        calls=calls,
        incomplete=None if run.is_complete else True,
    )


def _payload(record: Record) -> Mapping[str, object]:
    payload = record.get("payload")
    return payload if isinstance(payload, Mapping) else {}


def _call(record: Record) -> ReportedCall:
    payload = _payload(record)
    code, recorded_at = str(payload.get("code", "")), str(record.get("timestamp", ""))
    duration_ms = _number(payload.get("duration_ms"))
    return ReportedCall.model_validate(
        {
            "number": payload.get("run_call"),
            "at": _earlier(recorded_at, duration_ms or 0.0),
            "duration_ms": duration_ms,
            "kind": str(payload.get("kind", "tool")),
            "name": str(_first(payload, NAME_KEYS) or ""),
            "server_id": _first(payload, SERVER_KEYS),
            "agent": payload.get("agent"),
            "labels": _texts(payload.get("labels")),
            "documents": [*_documents_of(payload)],
            "outcome": _outcome_of(code),
            "code": code,
            "check": payload.get("check"),
            "reason": payload.get("reason"),
            "policies": [*_policies_of(payload)],
            "approval_id": payload.get(APPROVAL_ID),
            "tokens": payload.get("tokens"),
            "replayed": True if payload.get("replayed") else None,
            "trace_id": record.get("trace_id"),
            "recorded_at": recorded_at,
            "seq": record.get("seq") or 0,
            "worker": record.get("worker"),
        }
    )


def _first(payload: Mapping[str, object], keys: Iterable[str]) -> object:
    return next((payload[it] for it in keys if it in payload), None)


def _texts(value: object) -> list[str]:
    return [*map(str, value)] if isinstance(value, list | tuple) else []


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _earlier(time: str, by_ms: float) -> str:
    """Return the time before a record's time; a time that cannot be parsed stays."""
    try:
        return as_timestamp(datetime.fromisoformat(time) - timedelta(milliseconds=by_ms))
    except (ValueError, OverflowError):
        return time


def _documents_of(payload: Mapping[str, object]) -> Iterator[RunDocument]:
    """Yield the documents in a call's answer, or that of its arguments if it succeeded.

    A document in the arguments of a server's tool is not one of the gateway.
    """
    read = payload.get("read")
    if isinstance(read, list | tuple):
        yield from (RunDocument.model_validate(it) for it in read if isinstance(it, Mapping))
    elif "doc_id" in payload and payload.get("code") == "OK" and not _first(payload, SERVER_KEYS):
        yield RunDocument.model_validate(
            {"doc_id": payload["doc_id"], "version": payload.get("document_version")}
        )


def _policies_of(payload: Mapping[str, object]) -> Iterator[RunPolicy]:
    fired = payload.get("policies")
    for it in fired if isinstance(fired, list | tuple) else ():
        yield RunPolicy.model_validate(it if isinstance(it, Mapping) else {"id": str(it)})


def _outcome_of(code: str) -> str:
    if code == "OK":
        return "ok"
    if code in (CANCELLED, ""):
        return "cancelled"
    if code == _PENDING:
        return "pending"
    return "failed" if CHECK_OF_CODE.get(code) in FAILURES else "refused"


def _in_order(calls: Sequence[ReportedCall]) -> list[ReportedCall]:
    """Return the calls in the order in which they were made; refused ones by their start.

    Numbers are exact, unlike the times of several replicas. They repeat only if a restart has
    forgotten the run.
    """
    by_start = sorted(calls, key=lambda it: it.at)
    numbered = sorted((it for it in by_start if it.number), key=lambda it: it.number or 0)
    if len({it.number for it in numbered}) < len(numbered):
        return by_start
    ordered = [(it.at, 0, it) for it in by_start if not it.number]
    latest = ""
    for place, it in enumerate(numbered, start=1):
        latest = max(latest, it.at)
        ordered.append((latest, place, it))
    return [it for _, _, it in sorted(ordered, key=lambda it: it[:2])]


def _sums(calls: Sequence[ReportedCall]) -> RunSums:
    outcomes = Counter(it.outcome for it in calls)
    times = [_time(it.at) for it in calls] + [_time(it.recorded_at) for it in calls]
    known = [it for it in times if it is not None]
    lasted = max(known) - min(known) if known else timedelta()
    return RunSums(
        calls=len(calls),
        refused=outcomes["refused"],
        failed=outcomes["failed"],
        tokens=sum(it.tokens or 0 for it in calls),
        duration_ms=round(lasted / timedelta(milliseconds=1), 3),
    )


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _documents(calls: Iterable[ReportedCall]) -> list[RunDocument]:
    """Return each version of a document once, with all its pages."""
    pages: dict[tuple[str, str | None], set[int]] = {}
    untrusted: set[tuple[str, str | None]] = set()
    for it in (document for call in calls for document in call.documents):
        key = (it.doc_id, it.version)
        known = pages.setdefault(key, set())
        for first, last in it.pages or ():
            known.update(range(first, min(last, first + MAX_PAGES) + 1))
        if it.untrusted:
            untrusted.add(key)
    return [
        RunDocument(
            doc_id=key[0],
            version=key[1],
            pages=[[*it] for it in page_ranges(found)] or None,
            untrusted=True if key in untrusted else None,
        )
        for key, found in pages.items()
    ]


def _tools(made: Iterable[ReportedCall], labels: frozenset[Label]) -> list[RunTool]:
    """Return the tools of the calls that have one of the labels."""
    found: dict[tuple[str, str, str | None], Counter[bool]] = {}
    for it in made:
        if not labels.isdisjoint(it.labels):
            counts = found.setdefault((it.name, it.kind, it.server_id), Counter())
            counts[it.outcome == "ok"] += 1
    return [
        RunTool(name=name, kind=kind, server_id=server, ok=it[True], failed=it[False])
        for (name, kind, server), it in found.items()
    ]


def _refusals(calls: Iterable[ReportedCall]) -> list[RunRefusal]:
    found = Counter(
        (it.code, it.check, tuple(policy.id for policy in it.policies if policy.mode != "log_only"))
        for it in calls
        if it.outcome == "refused"
    )
    return [
        RunRefusal(code=code, check=check, policy_ids=[*ids], calls=count)
        for (code, check, ids), count in found.items()
    ]


def _approval(record: Record) -> RunApproval:
    payload = _payload(record)
    by = _first(payload, ("actor", "user_id", "subject", "token_id"))
    decision = payload.get("decision")
    ids = payload.get("policies", payload.get("policy_ids"))
    return RunApproval(
        at=str(record.get("timestamp", "")),
        event=str(record.get("event", "")),
        approval_id=str(payload.get(APPROVAL_ID, "")),
        decision=None if decision is None else str(decision),
        by=None if by is None else str(by),
        policy_ids=[
            str(it.get("id", "")) if isinstance(it, Mapping) else str(it)
            for it in (ids if isinstance(ids, list | tuple) else ())
        ],
    )
