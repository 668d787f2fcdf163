"""Records of requests other than calls: refusals, lists, subscriptions, operations and changes.

Changes are those of documents and logins, by their authors and as noticed by a replica.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, Origin, RegistryVersion
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.logins import LoginOwner
from mcp_tools_proxy.telemetry.recorder import Bound, Recorder, caller_fields, cut, decision_fields

REASON_CHARS = 256

RIGHT_USED = "operator.right_used"
"""The event of an operator's request that changes nothing."""


class RequestFacts(NamedTuple):
    """A request's route or MCP method, its trace id, and its client's name."""

    route: str
    trace_id: str
    client: str | None = None

    @property
    def as_fields(self) -> dict[str, object]:
        """The fields of a record."""
        fields: dict[str, object] = {"route": cut(self.route)}
        if self.client is not None:
            fields["client"] = cut(self.client)
        return fields


class RequestTelemetry:
    """Records requests that make no call."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def refused(
        self,
        error: ProxyError,
        request: RequestFacts,
        sender: Mapping[str, object],
        *,
        bound: Bound = Bound.REFUSED,
    ) -> float | None:
        """Record a request refused with ``error``; ``sender`` has the known fields of its sender.

        Returns the seconds until refusals of that sender are recorded individually again; None if
        this one is.
        """
        reason, where = error.reason or error.message, {}
        field = (error.details or {}).get("field")
        if isinstance(field, str):
            known = _without_callers_names(field)
            reason, where = reason.replace(field, known), {"field": known}
        fields = {
            "code": error.code,
            "reason": reason[:REASON_CHARS],
            **where,
            **request.as_fields,
            **sender,
            **decision_fields(error),
        }
        return self._recorder.record(
            "warning", "request.refused", request.trace_id, fields, bound=bound
        )

    def refused_to(self, caller: Caller, error: ProxyError, request: RequestFacts) -> None:
        """Record a refused request of a known caller that made no call."""
        self.refused(error, request, caller_fields(caller))

    def unread(self, event: str, caller: Caller, code: str, what: Mapping[str, object]) -> None:
        """Record a message that could not be parsed as a request; ``what`` quotes none of it."""
        fields = {"code": code, **what, **caller_fields(caller), "check": CHECK_OF_CODE[code]}
        self._recorder.record("warning", event, None, fields, bound=Bound.REFUSED)

    def listed(
        self, caller: Caller, request: RequestFacts, version: RegistryVersion, *, items: int
    ) -> None:
        """Record a successful list of components; ``items`` is the number of items."""
        self._done("components.listed", caller, request, version, {"items": items})

    def subscribed(
        self,
        caller: Caller,
        request: RequestFacts,
        version: RegistryVersion,
        *,
        lists: int,
        resources: int,
    ) -> None:
        """Record a subscription, or its end, by the number of lists and resources.

        The URIs of resources are omitted, because they can contain arguments.
        """
        what = {"lists": lists, "resources": resources}
        self._done("changes.subscribed", caller, request, version, what)

    def batch(
        self, caller: Caller, request: RequestFacts, *, calls: int, request_bytes: int
    ) -> None:
        """Record a batch as a whole, before it runs; each of its calls has a separate record."""
        fields = {
            **caller_fields(caller),
            **request.as_fields,
            "calls": calls,
            "request_bytes": request_bytes,
        }
        self._recorder.record("info", "batch.received", request.trace_id, fields, bound=Bound.DONE)

    def operation(self, event: str, code: str, trace_id: str, fields: Mapping[str, object]) -> None:
        """Record an operator's action; each change has a separate record."""
        is_done = code == "OK"
        bound: Bound | None = Bound.DONE if is_done else Bound.REFUSED
        if is_done and event != RIGHT_USED:
            bound = None
        level = "info" if is_done else "warning"
        self._recorder.record(level, event, trace_id, {"code": code, **fields}, bound=bound)

    def outdated(self, head: DocumentHead, reason: str) -> None:
        """Record that a document was removed because it expired, or by the named rule."""
        fields = {
            "code": "OK",
            "tenant_id": head.tenant_id,
            "doc_id": head.doc_id,
            "version": head.version,
            "reason": reason[:REASON_CHARS],
        }
        self._recorder.record("info", "document.outdated_removed", None, fields)

    def _done(
        self,
        event: str,
        caller: Caller,
        request: RequestFacts,
        version: RegistryVersion,
        what: Mapping[str, object],
    ) -> None:
        fields: dict[str, object] = {
            "code": "OK",
            **caller_fields(caller),
            **request.as_fields,
            **what,
            "preset": version.preset_id,
            "generation": version.generation,
        }
        self._recorder.record("info", event, request.trace_id, fields, bound=Bound.DONE)


def _without_callers_names(field: str) -> str:
    """Return a place in a body, up to ``arguments``, below which names are the caller's."""
    before, found, _ = field.partition("arguments")
    return cut(before + found)


def origin_fields(origin: Origin) -> dict[str, object]:
    """Return the fields of a record for an otherwise unknown sender."""
    return {"entry": origin.entry, "peer": origin.peer}


LOGIN_ENDED = "login.ended"
SIGNED_IN = "login.signed_in"
LOGIN_CHANGED = "login.changed"

MAX_OWNERS = 10_000
"""Remembered owners of logins; the oldest entry is dropped first."""


def login_fields(owner: LoginOwner) -> Mapping[str, object]:
    """Return the fields of a record that identify a login."""
    return without_none(
        {
            "server_id": owner.server_id,
            "login_for": owner.login_for.value,
            "tenant_id": owner.tenant_id or None,
            "user_id": owner.user_id or None,
        }
    )


class LoginChanges:
    """Records new and ended logins, regardless of their author.

    Changes over HTTP also have a record with the author; others are only noticed by their effect.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._noticed: dict[LoginOwner, float | None] = {}

    def noticed(self, owner: LoginOwner, signed_in_at: float | None) -> None:
        """Compare a login (None if missing) with the previous state, if one is known."""
        if owner not in self._noticed:
            if len(self._noticed) >= MAX_OWNERS:
                del self._noticed[next(iter(self._noticed))]
            self._noticed[owner] = signed_in_at
        elif self._noticed[owner] != signed_in_at:
            self._noticed[owner] = signed_in_at
            change = "ended" if signed_in_at is None else "signed_in"
            fields = {"code": "OK", "change": change, **login_fields(owner)}
            self._recorder.record("info", LOGIN_CHANGED, None, fields)


GATHER_S = 1.0
"""Seconds of changes that are combined in one record: an import can change thousands."""

KEYS_RECORDED = 20
"""Documents named in one record, which counts all."""


class NoticedChanges:
    """Records what every worker process notices, such as a changed file, in one of them.

    ``leads`` returns whether this is the one.
    """

    def __init__(self, recorder: Recorder, leads: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._leads = leads

    def record(
        self,
        level: str,
        event: str,
        trace_id: str | None,
        payload: Mapping[str, object],
        *,
        reserved: bool = False,
        bound: Bound | None = None,
    ) -> float | None:
        """Record a change if this process leads; see Recorder."""
        if not self._leads():
            return None
        return self._recorder.record(
            level, event, trace_id, payload, reserved=reserved, bound=bound
        )


class DocumentChanges:
    """Records changes after ``begin``; documents that exist at the start are not changes.

    Changes over HTTP also have a record with the operator; others are only noticed by their effect.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._gathered: dict[tuple[str, str], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Record changes from now on."""
        self._gathered = {}

    def changed(self, key: tuple[str, str]) -> None:
        """Add a document, by tenant and id, to the next record."""
        if self._gathered is None:
            return
        self._gathered[key] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self.flush)

    def flush(self) -> None:
        """Write the record of the collected changes, if any."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._gathered:
            named = [
                {"tenant_id": tenant_id, "doc_id": doc_id}
                for tenant_id, doc_id in list(self._gathered)[:KEYS_RECORDED]
            ]
            fields = {"code": "OK", "count": len(self._gathered), "documents": named}
            self._gathered = {}
            self._recorder.record("info", "documents.changed", None, fields)
