"""Audit records as shown on the pages of calls."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from mcp_tools_proxy.console.page_request import page_address
from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, FAILURES, Entry
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.outcome import CANCELLED
from mcp_tools_proxy.http.api.run_report import RunOwner
from mcp_tools_proxy.telemetry.audit.record_search import NAME_KEYS, cursor_of
from mcp_tools_proxy.telemetry.call_events import CALL_EVENTS
from mcp_tools_proxy.telemetry.request_events import RIGHT_USED

LABELS: Mapping[str, str] = {
    "batch.received": "Batch of calls",
    "components.listed": "Tools listed",
    "changes.subscribed": "Subscribed to changes",
    "request.refused": "Request refused",
    "request.refused_summary": "Refused requests (summary)",
    "request.done_summary": "Uncharged requests (summary)",
    "operator.right_used": "Operator request",
    "audit.stream_ended": "Live view ended",
    "approval.asked": "Approval asked for",
    "approval.seen": "Waiting call read",
    "approval.decided": "Approval decided",
    "approval.used": "Approval used",
    "console.signed_in": "Console sign-in",
    "console.signed_out": "Console sign-out",
    "document.added": "Document added",
    "document.replaced": "Document replaced",
    "document.removed": "Document removed",
    "document.rights_changed": "Document readers changed",
    "document.facts_changed": "Document facts changed",
    "documents.removed": "Documents removed",
    "document.outdated_removed": "Outdated document removed",
    "documents.changed": "Document store changed",
    "login.signed_in": "Server sign-in",
    "login.offered": "Server sign-in offered",
    "login.ended": "Server login ended",
    "login.changed": "Server login changed",
    "logins.listed": "Server logins listed",
    "tokens.changed": "Tokens changed",
    "token.created": "Token created",
    "token.revoked": "Token revoked",
    "facade.line_refused": "Input line refused (stdio)",
    "facade.line_too_long": "Input line too long (stdio)",
    "remote.frame_ignored": "Remote backend message ignored",
    "audit.opened": "Audit file opened",
    "audit.file_removed": "Old audit file removed",
    "audit.lost": "Records lost",
    "audit.resumed": "Audit file writable again",
}
"""Labels of records that are not calls, by event."""

_SUBJECT_KEYS = ("route", "doc_id", "server_id", "preset_id", "reason")
_WHO_KEYS = ("user_id", "subject", "token_id")

SLOWEST_MS = 1000.0
"""Duration that fills the bar."""


def code_kind(code: str) -> str:
    """Return the display kind of a code: ok, warn (refused), bad (failed) or idle."""
    if code == "OK":
        return "ok"
    if code in ("", CANCELLED):
        return "idle"
    return "bad" if CHECK_OF_CODE.get(code) in FAILURES else "warn"


@dataclass(frozen=True)
class ShownRecord:
    """One audit record; missing values are "" or None."""

    record: Mapping[str, Any]

    @cached_property
    def payload(self) -> Mapping[str, Any]:
        """Fields besides time, event and trace."""
        found = self.record.get("payload")
        return found if isinstance(found, dict) else {}

    @property
    def seq(self) -> int | None:
        """Its number in the audit; None for live records."""
        return self.record.get("seq")

    @property
    def worker(self) -> str:
        """The worker process that numbered it, if there are several."""
        return str(self.record.get("worker", ""))

    @property
    def cursor(self) -> int | None:
        """The API's cursor of older records: with several workers a time."""
        return cursor_of(self.at) if self.worker else self.seq

    @property
    def at(self) -> str:
        """Time of creation in UTC."""
        return str(self.record.get("timestamp", ""))

    @property
    def second(self) -> str:
        """Time truncated to seconds."""
        whole, dot, _ = self.at.partition(".")
        return f"{whole}Z" if dot else whole

    @property
    def event(self) -> str:
        """The event name."""
        return str(self.record.get("event", ""))

    @property
    def trace_id(self) -> str | None:
        """The id shared by all records of a request."""
        return self.record.get("trace_id")

    @property
    def viewer_trace_id(self) -> str | None:
        """The trace id for a trace viewer."""
        return self.payload.get("otel_trace_id") or self.trace_id

    @property
    def is_call(self) -> bool:
        """Whether it records a call."""
        return self.event in CALL_EVENTS

    @property
    def is_page_view(self) -> bool:
        """Whether it records a read-only page view of the console."""
        return (
            self.event == RIGHT_USED
            and self.payload.get("entry") == Entry.CONSOLE
            and str(self.payload.get("route", "")).startswith("GET ")
        )

    @property
    def path(self) -> str | None:
        """The address of its page. It includes the time, because numbers repeat across replicas."""
        if self.seq is not None:
            query = {"at": self.at, "worker": self.worker, "trace_id": self.trace_id}
            return page_address(f"/console/calls/{self.seq}", query)
        return None if self.trace_id is None else trace_path(self.trace_id)

    @property
    def run_id(self) -> str | None:
        """The id of the run that it belongs to."""
        return self.payload.get("run_id")

    @property
    def run_path(self) -> str | None:
        """The address of the page of its run; only records of calls name its owner."""
        if self.run_id is None or not self.is_call:
            return None
        return run_path(self.run_id, RunOwner.of(self.payload))

    @property
    def name(self) -> str:
        """The name of the called tool, prompt or resource."""
        return next((str(self.payload[key]) for key in NAME_KEYS if key in self.payload), "")

    @property
    def component(self) -> str:
        """Its kind: tool, prompt or resource."""
        return str(self.payload.get("kind", "tool"))

    @property
    def label(self) -> str:
        """Label of the event."""
        return LABELS.get(self.event) or self.event.replace(".", " ").replace("_", " ")

    @property
    def subject(self) -> str:
        """The subject of a record that is not a call."""
        return next((str(self.payload[key]) for key in _SUBJECT_KEYS if key in self.payload), "")

    @property
    def server(self) -> str | None:
        """The server that was called."""
        return self.payload.get("targetServerId") or self.payload.get("server_id")

    @property
    def who(self) -> str | None:
        """The caller: the user, otherwise the token."""
        return next((self.payload[key] for key in _WHO_KEYS if self.payload.get(key)), None)

    @property
    def is_of_token(self) -> bool:
        """Whether ``who`` is a token id because the user is unknown."""
        return self.who is not None and self.who == self.payload.get("token_id")

    @property
    def code(self) -> str:
        """The result code, or ""."""
        return str(self.payload.get("code", ""))

    @property
    def check(self) -> str | None:
        """The check that decided."""
        return self.payload.get("check")

    @property
    def kind(self) -> str:
        """Display kind of the code."""
        return code_kind(self.code)

    @property
    def duration_ms(self) -> float | None:
        """Duration of the call in milliseconds."""
        return self.payload.get("duration_ms")

    @property
    def duration_share(self) -> float:
        """Filled share of the duration bar, 0 to 1."""
        return min(1.0, (self.duration_ms or 0) / SLOWEST_MS)

    @property
    def try_path(self) -> str:
        """The address to try the same call."""
        return page_address("/console/try", self._caller() | {"tool": self.name})

    @property
    def why_path(self) -> str:
        """The address that explains access for the same call now."""
        return page_address("/console/visibility/why", self._caller() | {"tool": self.name})

    @property
    def limits_path(self) -> str:
        """The address of the call's budgets."""
        tool = {"tool": self.name} if self.component == "tool" else {}
        document = {"doc_id": self.payload.get("doc_id")}
        return page_address("/console/limits", self._caller() | tool | document)

    def _caller(self) -> dict[str, Any]:
        return {key: self.payload.get(key) for key in ("tenant_id", "user_id", "agent")}


RUN_PATH = "/console/calls/run"


def run_path(run_id: str, owner: RunOwner) -> str:
    """Return the address of the page of a run; its id can be any text."""
    return page_address(RUN_PATH, {"run_id": run_id, **owner.query})


def trace_path(trace_id: str) -> str:
    """Return the address of the page of a trace; its id can be any text."""
    return page_address("/console/calls/trace", {"trace_id": trace_id})
