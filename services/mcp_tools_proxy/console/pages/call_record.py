"""What the pages of calls show of a record of the audit."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mcp_tools_proxy.console.page_request import page_address
from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, Check, Entry
from mcp_tools_proxy.domain.outcome import CANCELLED
from mcp_tools_proxy.telemetry.call_events import ANSWERED, DENIED, FAILED, LOCAL
from mcp_tools_proxy.telemetry.request_events import RIGHT_USED

CALL_EVENTS = frozenset({*LOCAL.values(), ANSWERED, FAILED, *DENIED.values()})
"""The events of records of calls; each call has one, when it has ended."""

LABELS: Mapping[str, str] = {
    "batch.received": "Batch of calls",
    "components.listed": "Tools listed",
    "changes.subscribed": "Subscribed to changes",
    "request.refused": "Request refused",
    "request.refused_summary": "Refused requests (summary)",
    "request.done_summary": "Uncharged requests (summary)",
    "operator.right_used": "Operator request",
    "audit.stream_ended": "Live view ended",
    "console.signed_in": "Console sign-in",
    "console.signed_out": "Console sign-out",
    "document.added": "Document added",
    "document.replaced": "Document replaced",
    "document.removed": "Document removed",
    "document.rights_changed": "Document readers changed",
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
"""What a record is of that is no call, by its event."""

NAME_KEYS = ("tool", "toolName", "promptName", "resourceUri")
_SUBJECT_KEYS = ("route", "doc_id", "server_id", "preset_id", "reason")
_WHO_KEYS = ("user_id", "subject", "token_id")

_FAILURES = frozenset({Check.RETRIEVAL, Check.SERVER, Check.RESULT, Check.GATEWAY})
"""What goes wrong behind these checks is a failure; the others refuse."""

SLOWEST_MS = 1000.0
"""Where the bar of a duration is full."""


def code_kind(code: str) -> str:
    """Return how the code of a call looks: ok, warn (refused), bad (failed) or idle."""
    if code == "OK":
        return "ok"
    if code in ("", CANCELLED):
        return "idle"
    return "bad" if CHECK_OF_CODE.get(code) in _FAILURES else "warn"


@dataclass(frozen=True)
class ShownRecord:
    """One record; what it lacks is None or ""."""

    record: Mapping[str, Any]

    @cached_property
    def payload(self) -> Mapping[str, Any]:
        """What it says besides time, event and trace."""
        found = self.record.get("payload")
        return found if isinstance(found, dict) else {}

    @property
    def seq(self) -> int | None:
        """Its number in the audit; one that is shown as it comes has none yet."""
        return self.record.get("seq")

    @property
    def at(self) -> str:
        """When it was made, in UTC."""
        return str(self.record.get("timestamp", ""))

    @property
    def second(self) -> str:
        """The same without what is below a second."""
        whole, dot, _ = self.at.partition(".")
        return f"{whole}Z" if dot else whole

    @property
    def event(self) -> str:
        """The kind of record."""
        return str(self.record.get("event", ""))

    @property
    def trace_id(self) -> str | None:
        """The id by which all records of one request are found."""
        return self.record.get("trace_id")

    @property
    def viewer_trace_id(self) -> str | None:
        """The id of the trace in a trace viewer."""
        return self.payload.get("otel_trace_id") or self.trace_id

    @property
    def is_call(self) -> bool:
        """Whether it is of a call."""
        return self.event in CALL_EVENTS

    @property
    def is_page_view(self) -> bool:
        """Whether a page of the console has only looked at something."""
        return (
            self.event == RIGHT_USED
            and self.payload.get("entry") == Entry.CONSOLE
            and str(self.payload.get("route", "")).startswith("GET ")
        )

    @property
    def path(self) -> str | None:
        """The address of its page; with its time, since others have its number elsewhere."""
        if self.seq is not None:
            query = {"at": self.at, "trace_id": self.trace_id}
            return page_address(f"/console/calls/{self.seq}", query)
        return None if self.trace_id is None else trace_path(self.trace_id)

    @property
    def name(self) -> str:
        """The name of what was called."""
        return next((str(self.payload[key]) for key in NAME_KEYS if key in self.payload), "")

    @property
    def component(self) -> str:
        """What kind of thing that is: tool, prompt or resource."""
        return str(self.payload.get("kind", "tool"))

    @property
    def label(self) -> str:
        """What it is of, in words."""
        return LABELS.get(self.event) or self.event.replace(".", " ").replace("_", " ")

    @property
    def subject(self) -> str:
        """What a record that is of no call is about."""
        return next((str(self.payload[key]) for key in _SUBJECT_KEYS if key in self.payload), "")

    @property
    def server(self) -> str | None:
        """The server that was called."""
        return self.payload.get("targetServerId") or self.payload.get("server_id")

    @property
    def who(self) -> str | None:
        """Who called: the user, else the token."""
        return next((self.payload[key] for key in _WHO_KEYS if self.payload.get(key)), None)

    @property
    def is_of_token(self) -> bool:
        """Whether ``who`` is the id of a token: no user is known."""
        return self.who is not None and self.who == self.payload.get("token_id")

    @property
    def code(self) -> str:
        """How it ended; "" for what has no end."""
        return str(self.payload.get("code", ""))

    @property
    def check(self) -> str | None:
        """The check that decided."""
        return self.payload.get("check")

    @property
    def kind(self) -> str:
        """How its code looks."""
        return code_kind(self.code)

    @property
    def duration_ms(self) -> float | None:
        """How long the call took."""
        return self.payload.get("duration_ms")

    @property
    def duration_share(self) -> float:
        """How much of its bar the duration fills."""
        return min(1.0, (self.duration_ms or 0) / SLOWEST_MS)

    @property
    def try_path(self) -> str:
        """The address of the page that tries the same."""
        return page_address("/console/try", self._caller() | {"tool": self.name})

    @property
    def why_path(self) -> str:
        """The address of the page that explains what would happen to it now."""
        return page_address("/console/visibility/why", self._caller() | {"tool": self.name})

    @property
    def limits_path(self) -> str:
        """The address of the page with the budgets of the call."""
        tool = {"tool": self.name} if self.component == "tool" else {}
        document = {"doc_id": self.payload.get("doc_id")}
        return page_address("/console/limits", self._caller() | tool | document)

    def _caller(self) -> dict[str, Any]:
        return {key: self.payload.get(key) for key in ("tenant_id", "user_id", "agent")}


def trace_path(trace_id: str) -> str:
    """Return the address of the page with all records of a trace; its id may be any text."""
    return page_address("/console/calls/trace", {"trace_id": trace_id})
