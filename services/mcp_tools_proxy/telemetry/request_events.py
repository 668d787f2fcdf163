"""The records of requests that are no calls: refused ones, lists, subscriptions, operations."""

from collections.abc import Mapping
from typing import NamedTuple

from mcp_tools_proxy.domain.audit.checks import CHECK_OF_CODE
from mcp_tools_proxy.domain.audit.origin import Origin
from mcp_tools_proxy.domain.audit.registry_version import RegistryVersion
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.telemetry.recorder import (
    Bound,
    Recorder,
    caller_fields,
    cut,
    decision_fields,
)

REASON_CHARS = 256

RIGHT_USED = "operator.right_used"
"""The event of an operator's request that changes nothing."""


class RequestFacts(NamedTuple):
    """What is known of a request: its route or MCP method, its trace id, its client's name."""

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
        """Record a request refused with ``error``; ``sender`` is what is known of its sender.

        Returns the seconds until refusals of that sender are recorded one by one again; None if
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
        """Record a request of a known caller that was refused, and made no call."""
        self.refused(error, request, caller_fields(caller))

    def unread(self, event: str, caller: Caller, code: str, what: Mapping[str, object]) -> None:
        """Record what a caller sent that is no request at all; ``what`` shows nothing of it."""
        fields = {"code": code, **what, **caller_fields(caller), "check": CHECK_OF_CODE[code]}
        self._recorder.record("warning", event, None, fields, bound=Bound.REFUSED)

    def listed(
        self, caller: Caller, request: RequestFacts, version: RegistryVersion, *, items: int
    ) -> None:
        """Record a list of components that was answered with ``items``."""
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

        The URIs of resources are left out: they may hold arguments.
        """
        what = {"lists": lists, "resources": resources}
        self._done("changes.subscribed", caller, request, version, what)

    def batch(
        self, caller: Caller, request: RequestFacts, *, calls: int, request_bytes: int
    ) -> None:
        """Record a batch as a whole, before it runs; each of its calls has a record of its own."""
        fields = {
            **caller_fields(caller),
            **request.as_fields,
            "calls": calls,
            "request_bytes": request_bytes,
        }
        self._recorder.record("info", "batch.received", request.trace_id, fields, bound=Bound.DONE)

    def operation(self, event: str, code: str, trace_id: str, fields: Mapping[str, object]) -> None:
        """Record what an operator did; each change has a record of its own."""
        is_done = code == "OK"
        bound: Bound | None = Bound.DONE if is_done else Bound.REFUSED
        if is_done and event != RIGHT_USED:
            bound = None
        level = "info" if is_done else "warning"
        self._recorder.record(level, event, trace_id, {"code": code, **fields}, bound=bound)

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
    """Return a place in a body, up to ``arguments``: what is below are a caller's own names."""
    before, found, _ = field.partition("arguments")
    return cut(before + found)


def origin_fields(origin: Origin) -> dict[str, object]:
    """Return the fields of a record for a sender of which no more is known."""
    return {"entry": origin.entry, "peer": origin.peer}
