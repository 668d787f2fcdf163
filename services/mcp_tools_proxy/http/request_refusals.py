"""Counts and records HTTP requests without calls: refused ones, and operations of operators."""

from collections.abc import Mapping
from typing import Self

from starlette.types import Scope

from mcp_tools_proxy.auth.authenticator import proven_of
from mcp_tools_proxy.auth.caller_resolver import CALLER, PRINCIPAL
from mcp_tools_proxy.domain.audit import Entry
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import Forbidden, ProxyError, Unauthenticated
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.http.request_headers import ENTRY, Peers
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.recorder import Bound, cut
from mcp_tools_proxy.telemetry.request_events import (
    RIGHT_USED,
    RequestFacts,
    RequestTelemetry,
    origin_fields,
)
from mcp_tools_proxy.telemetry.spans import ERROR_TYPE, set_on_span

_OPERATION = "mcp_tools_proxy.operation"


class RecordedOperation:
    """An operation other than calls and lists, to be recorded.

    The operator gate begins one for each use of a right; handlers add the changes.
    """

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: Mapping[str, object]) -> None:
        self.event = event
        self.fields = dict(fields)

    @classmethod
    def by_right(
        cls, right: OperatorRight, tenant_id: str | None, token_fields: Mapping[str, str]
    ) -> Self:
        """Return the use of an operator's right."""
        tenant = {} if tenant_id is None else {"tenant_id": tenant_id}
        return cls(RIGHT_USED, {"right": right.value, **tenant, **token_fields})


def begin_operation(scope: Scope, operation: RecordedOperation) -> None:
    """Set the operation of a request."""
    scope[_OPERATION] = operation


def operation_of(scope: Scope) -> RecordedOperation | None:
    """Return the operation of a request, if any."""
    found: RecordedOperation | None = scope.get(_OPERATION)
    return found


def add_to_operation(scope: Scope, event: str | None = None, **fields: object) -> None:
    """Add an event and fields to the record of a request's operation."""
    operation = operation_of(scope)
    if operation is not None:
        operation.event = event or operation.event
        operation.fields |= fields


def continued_scope(scope: Scope) -> Scope:
    """Return the scope of work that continues after its request, with a record of its own."""
    continued = {**scope}
    if operation := operation_of(scope):
        continued[_OPERATION] = RecordedOperation(operation.event, operation.fields)
    return continued


def end_operation(scope: Scope) -> None:
    """Remove the operation of a request that gets another kind of record."""
    scope.pop(_OPERATION, None)


class RequestRefusals:
    """Counts and records refused requests, with their route, peer, and proven sender.

    Without ``needs_token``, a refused caller without a token counts like any other caller.
    """

    def __init__(
        self,
        metrics: Metrics,
        telemetry: RequestTelemetry,
        peers: Peers | None = None,
        *,
        needs_token: bool = False,
    ) -> None:
        self.telemetry = telemetry
        self.peers = peers or Peers()
        self._metrics = metrics
        self._needs_token = needs_token

    def record_refusal(self, scope: Scope, error: ProxyError, trace_id: str) -> None:
        """Count and record a request that is refused with ``error``; its span has the code.

        A refused token gets the seconds to wait if its address has many refusals.
        """
        self._metrics.requests_refused.labels(error.code).inc()
        set_on_span({ERROR_TYPE: error.code})
        operation = operation_of(scope)
        proven = {**_proven(scope, error), **(operation.fields if operation else {})}
        origin = origin_fields(self.peers.origin_of(scope, entry_of(scope)))
        wait_s = self.telemetry.refused(
            error,
            RequestFacts(route_of(scope), trace_id),
            {**origin, **_token_fields(error), **proven},
            bound=self._bound_of(error, is_proven=bool(proven)),
        )
        if isinstance(error, Unauthenticated) and error.token_refused:
            error.retry_after_s = wait_s

    def _bound_of(self, error: ProxyError, *, is_proven: bool) -> Bound:
        if is_proven or not (self._needs_token or isinstance(error, Unauthenticated | Forbidden)):
            return Bound.REFUSED
        return Bound.UNAUTHENTICATED

    def record_operation(self, scope: Scope, code: str, trace_id: str) -> None:
        """Record the operation of a request, if any."""
        operation = operation_of(scope)
        if operation is not None:
            fields = {
                **operation.fields,
                "route": route_of(scope),
                **origin_fields(self.peers.origin_of(scope, entry_of(scope))),
            }
            self.telemetry.operation(operation.event, code, trace_id, fields)


def entry_of(scope: Scope) -> Entry:
    """Return the entry in the scope, or by default that of the path."""
    entry: Entry | None = scope.get(ENTRY)
    if entry is not None:
        return entry
    path: str = scope["path"]
    if is_console_path(path):
        return Entry.CONSOLE
    return Entry.MCP if path == "/mcp" or path.startswith("/mcp/") else Entry.API


CONSOLE_PATH = "/console"
CONSOLE_UPLOAD = ("POST", f"{CONSOLE_PATH}/documents/upload")
"""The form with a larger body than others, which can take longer to arrive."""


def is_console_path(path: str) -> bool:
    """Return whether a path belongs to the console."""
    return path == CONSOLE_PATH or path.startswith(f"{CONSOLE_PATH}/")


PAGE_PREFIX = "/oauth/start/"
"""Path prefix of sign-in addresses; a secret nonce follows."""


def is_page_path(path: str) -> bool:
    """Return whether a path belongs to a form of our pages."""
    return path.startswith(PAGE_PREFIX)


def route_of(scope: Scope) -> str:
    """Return method and path of a request for logs, without nonces."""
    before, found, _ = scope["path"].partition(PAGE_PREFIX)
    return cut(f"{scope['method']} {before}{found}{'{nonce}' if found else ''}")


def _token_fields(error: ProxyError) -> Mapping[str, str]:
    """Return log fields for an expired or revoked token; its sender is unauthenticated."""
    return error.token_fields if isinstance(error, Unauthenticated) else {}


def _proven(scope: Scope, error: ProxyError) -> Mapping[str, str]:
    caller: Caller | None = scope.get(CALLER)
    if error.proven or caller is None or not caller.token_log_fields:
        principal: Principal | None = scope.get(PRINCIPAL)
        return error.proven or ({} if principal is None else proven_of(principal))
    return {"tenant_id": caller.tenant_id, **caller.token_log_fields}
