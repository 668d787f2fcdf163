"""The current span of a call, its attributes, and functions to start child spans.

The handler of a request starts its span with the ``Tracer``. Code below finds it in the context of
its task; outside of a recorded request, it gets ``NO_SPAN``. OpenTelemetry is not imported here:
without traces, no span object is created. Attributes never have content: no argument, text, query,
secret, or undeclared name.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import urlsplit

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.outcome import CallRecord, Ok
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.wire.text import QUOTE_CHARS

Attributes = Mapping[str, str | int]

ERROR_TYPE = "error.type"
TRACE_ID = "mcp_proxy.trace_id"


class Span(Protocol):
    """A span that ends with its ``with`` block; an exception from the block is its error."""

    def __enter__(self) -> Self:
        """Become the current span."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End, and stop being the current span."""
        ...

    @property
    def is_recording(self) -> bool:
        """Whether attributes are recorded."""
        ...

    def add_target(self, target: str) -> None:
        """Add the target of the request or call to the name."""
        ...

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        ...

    def fail(self, error_type: str) -> None:
        """Mark the span as failed; the first type is kept."""
        ...


class ActiveSpan(Span, Protocol):
    """The span of a request or of a part of it, recorded or not; the parent of other spans."""

    @property
    def trace_id(self) -> str:
        """The trace's id, 32 hex digits."""
        ...

    @property
    def w3c_context(self) -> Mapping[str, str]:
        """``traceparent``, and ``tracestate`` if set, for outgoing requests."""
        ...

    @property
    def request(self) -> "ActiveSpan | None":
        """The span of the MCP request if this is its only call."""
        ...

    def start_child(self, name: str, attributes: Attributes, *, is_client: bool) -> Span:
        """Start a recorded span below this one."""
        ...


class _NoSpan:
    is_recording = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing."""

    def add_target(self, target: str) -> None:
        """Do nothing."""

    def set(self, attributes: Attributes) -> None:
        """Do nothing."""

    def fail(self, error_type: str) -> None:
        """Do nothing."""


NO_SPAN: Span = _NoSpan()
"""Replaces all unrecorded spans."""

NO_ATTRIBUTES: Attributes = {}

CURRENT: ContextVar[ActiveSpan | None] = ContextVar("current_span", default=None)
"""None without traces, and outside of requests."""


class Tracer(Protocol):
    """Starts the spans of requests."""

    @property
    def is_on(self) -> bool:
        """Whether traces are on."""
        ...

    def start_request(
        self,
        name: str,
        attributes: Attributes,
        received: Mapping[str, str],
        *,
        is_mcp: bool = False,
    ) -> Span:
        """Start the span of a request with the W3C context ``received``, if valid.

        With ``is_mcp``, the request makes at most one call, whose name and error it shows too.
        """
        ...

    def open(self) -> None:
        """Begin to export spans."""
        ...

    async def close(self) -> None:
        """Export the last spans, for a limited time."""
        ...


class NoTracer:
    """Starts no spans."""

    is_on = False

    def start_request(
        self,
        name: str,
        attributes: Attributes,
        received: Mapping[str, str],
        *,
        is_mcp: bool = False,
    ) -> Span:
        """Return NO_SPAN."""
        return NO_SPAN

    def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


def child_span(
    name: str, attributes: Attributes = NO_ATTRIBUTES, *, is_client: bool = False
) -> Span:
    """Start a span below the current one; ``is_client`` marks a request to another program."""
    current = CURRENT.get()
    if current is None or not current.is_recording:
        return NO_SPAN
    return current.start_child(name, attributes, is_client=is_client)


def current_trace_id() -> str | None:
    """Return the id of the current trace; None without traces."""
    current = CURRENT.get()
    return None if current is None else current.trace_id


def outgoing_context(received: Mapping[str, str]) -> Mapping[str, str]:
    """Return the W3C context for an outgoing request.

    It is the current span's, with the caller's ``baggage``; without traces, it is the caller's own,
    ``received``.
    """
    current = CURRENT.get()
    if current is None:
        return received
    baggage = received.get("baggage")
    return current.w3c_context if baggage is None else {**current.w3c_context, "baggage": baggage}


def set_on_span(attributes: Attributes) -> None:
    """Add attributes to the current span."""
    current = CURRENT.get()
    if current is not None and current.is_recording:
        current.set(attributes)


METHOD = "mcp.method.name"
COMPLETE = "completion/complete"

DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}

_CALL_NAMES = {Kind.TOOL: "execute_tool", Kind.PROMPT: "get_prompt", Kind.RESOURCE: "read_resource"}
"""For tools the GenAI conventions, which define nothing for the other kinds."""

_NAME_KEYS = {
    Kind.TOOL: "gen_ai.tool.name",
    Kind.PROMPT: "gen_ai.prompt.name",
    Kind.RESOURCE: "mcp.resource.uri",
}
"""The attribute with the component's name; for a resource its key, so that templates are
unexpanded."""


def call_span(call: Call, name: str | None = None) -> Span:
    """Start the span of a call, named by its kind or by ``name``."""
    current = CURRENT.get()
    if current is None or not current.is_recording:
        return NO_SPAN
    attributes = {"mcp_proxy.tenant_id": call.caller.tenant_id[:QUOTE_CHARS]}
    return current.start_child(name or _CALL_NAMES[call.kind], attributes, is_client=False)


def describe_call(record: CallRecord) -> None:
    """Describe a finished call on its span, and on that of its MCP request.

    The caller's own name for a component is omitted, because it can be any text. So is a document's
    id, unless the call found the document.
    """
    span = CURRENT.get()
    if span is None or not span.is_recording:
        return
    spec, request = record.spec, span.request
    attributes = {} if spec is None else _component_attributes(spec, spec.name)
    for one in (span,) if request is None else (span, request):
        if spec is not None and spec.kind is not Kind.RESOURCE:
            one.add_target(spec.name[:QUOTE_CHARS])
        if not isinstance(record.outcome, Ok):
            one.fail(record.code)
    if request is not None:
        request.set(attributes)
    if isinstance(record.outcome, Ok):
        attributes |= _outcome_attributes(record, record.outcome)
    span.set(attributes | _run_attributes(record))


def server_span(method: str, config: ServerConfig, spec: ComponentSpec, name: str) -> Span:
    """Start the span of a request to a server that has the component under ``name``."""
    current = CURRENT.get()
    if current is None or not current.is_recording:
        return NO_SPAN
    attributes = {METHOD: method, **_component_attributes(spec, name)}
    if config.transport is Transport.STDIO:
        attributes["network.transport"] = "pipe"
    else:
        url = urlsplit(config.url)
        attributes["network.transport"] = "tcp"
        attributes["server.address"] = url.hostname or ""
        attributes["server.port"] = url.port or DEFAULT_PORTS.get(url.scheme, 0)
    span = current.start_child(method, attributes, is_client=True)
    if spec.kind is not Kind.RESOURCE:
        span.add_target(name[:QUOTE_CHARS])
    return span


def _component_attributes(spec: ComponentSpec, name: str) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {_NAME_KEYS[spec.kind]: name[:QUOTE_CHARS]}
    if spec.kind is Kind.TOOL:
        attributes["gen_ai.operation.name"] = _CALL_NAMES[Kind.TOOL]
    if spec.server_id is not None:
        attributes["mcp_proxy.server_id"] = spec.server_id
    return attributes


def _run_attributes(record: CallRecord) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {}
    if record.call.run is not None:
        attributes["mcp_proxy.run_id"] = record.call.run.run_id[:QUOTE_CHARS]
    if record.run is not None and record.run.policies:
        fired = ", ".join(it.policy_id for it in record.run.policies)
        attributes["mcp_proxy.policies"] = fired[:QUOTE_CHARS]
    return attributes


def _outcome_attributes(record: CallRecord, outcome: Ok) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "mcp_proxy.tokens": outcome.tokens,
        "mcp_proxy.result_bytes": len(outcome.result_json),
    }
    spec, doc_id = outcome.spec, record.call.arguments.get("doc_id")
    # list_available_tools ignores a doc_id, which then is any text of its caller
    if spec.server_id is None and "doc_id" in spec.argument_names and isinstance(doc_id, str):
        attributes["mcp_proxy.document_id"] = doc_id[:QUOTE_CHARS]
    return attributes
