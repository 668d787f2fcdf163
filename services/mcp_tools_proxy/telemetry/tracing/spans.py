"""The current span of a call, and how the other rooms start spans below it.

Who serves a request starts its span by the ``Tracer``. All below find it in the context of their
task, so that nothing has to be passed on; outside of a recorded request they get ``NO_SPAN``.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, Self

Attributes = Mapping[str, str | int]

ERROR_TYPE = "error.type"
TRACE_ID = "mcp_proxy.trace_id"


class Span(Protocol):
    """A span that ends with its ``with`` block; what leaves the block by error is its error."""

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
        """Whether attributes are of use."""
        ...

    def add_target(self, target: str) -> None:
        """Add to the name what the request or call turned out to be for."""
        ...

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        ...

    def fail(self, error_type: str) -> None:
        """Mark the span as failed; the first type stays."""
        ...


class ActiveSpan(Span, Protocol):
    """The span of a request or of a part of it, recorded or not; other spans start below it."""

    @property
    def trace_id(self) -> str:
        """The trace's id, 32 hex digits."""
        ...

    @property
    def w3c_context(self) -> Mapping[str, str]:
        """``traceparent``, and ``tracestate`` if there is one, for whom is called from here."""
        ...

    @property
    def request(self) -> "ActiveSpan | None":
        """The span of the MCP request that this is the one call of."""
        ...

    def start_child(self, name: str, attributes: Attributes, *, is_client: bool) -> Span:
        """Start a span below this one, which is recorded."""
        ...


class _NoSpan:
    """Does nothing."""

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
"""What stands for every span that is not recorded."""

NO_ATTRIBUTES: Attributes = {}

CURRENT: ContextVar[ActiveSpan | None] = ContextVar("current_span", default=None)
"""None where traces are off, and outside of requests."""


class Tracer(Protocol):
    """Starts the spans of requests."""

    @property
    def is_on(self) -> bool:
        """Whether there are spans at all."""
        ...

    def start_request(
        self,
        name: str,
        attributes: Attributes,
        received: Mapping[str, str],
        *,
        is_mcp: bool = False,
    ) -> Span:
        """Start the span of a request that came with the W3C context ``received``, if valid.

        With ``is_mcp`` it is of one call at most, whose name and error it shows as well.
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
    """Start a span below the current one; ``is_client`` if it is a request to another program."""
    current = CURRENT.get()
    if current is None or not current.is_recording:
        return NO_SPAN
    return current.start_child(name, attributes, is_client=is_client)


def current_trace_id() -> str | None:
    """Return the id of the current trace, None where traces are off."""
    current = CURRENT.get()
    return None if current is None else current.trace_id


def outgoing_context(received: Mapping[str, str]) -> Mapping[str, str]:
    """Return the W3C context for a request that is sent now.

    It is the current span's, with the caller's ``baggage``; where traces are off, it is the
    caller's own, as ``received``.
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
