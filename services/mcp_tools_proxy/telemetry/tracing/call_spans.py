"""What the spans of calls and of requests to servers are named, and what they show."""

from urllib.parse import urlsplit

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.outcome import CallRecord, Ok
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.telemetry.call_events import code_of
from mcp_tools_proxy.telemetry.tracing.spans import CURRENT, NO_SPAN, Span
from mcp_tools_proxy.wire.text import QUOTE_CHARS

METHOD = "mcp.method.name"
COMPLETE = "completion/complete"

DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}

_CALL_NAMES = {Kind.TOOL: "execute_tool", Kind.PROMPT: "get_prompt", Kind.RESOURCE: "read_resource"}
"""For a tool what the conventions for GenAI say, which have nothing for the other kinds."""

_NAME_KEYS = {
    Kind.TOOL: "gen_ai.tool.name",
    Kind.PROMPT: "gen_ai.prompt.name",
    Kind.RESOURCE: "mcp.resource.uri",
}
"""The attribute with the component's name. For a resource that is its key: a template as it is."""


def call_span(call: Call, name: str | None = None) -> Span:
    """Start the span of a call, named by its kind unless ``name`` says what it is."""
    current = CURRENT.get()
    if current is None or not current.is_recording:
        return NO_SPAN
    attributes = {"mcp_proxy.tenant_id": call.caller.tenant_id[:QUOTE_CHARS]}
    return current.start_child(name or _CALL_NAMES[call.kind], attributes, is_client=False)


def describe_call(record: CallRecord) -> None:
    """Describe a finished call on its span, and on that of an MCP request.

    The caller's own name for a component is left out: it may be anything. So is a document's id,
    unless the call found the document.
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
            one.fail(code_of(record))
    if request is not None:
        request.set(attributes)
    if isinstance(record.outcome, Ok):
        attributes |= _outcome_attributes(record, record.outcome)
    span.set(attributes)


def server_span(method: str, config: ServerConfig, spec: ComponentSpec, name: str) -> Span:
    """Start the span of a request to a server, which has the component under ``name``."""
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
    """Return the attributes that name a component, for a caller or for its server."""
    attributes: dict[str, str | int] = {_NAME_KEYS[spec.kind]: name[:QUOTE_CHARS]}
    if spec.kind is Kind.TOOL:
        attributes["gen_ai.operation.name"] = _CALL_NAMES[Kind.TOOL]
    if spec.server_id is not None:
        attributes["mcp_proxy.server_id"] = spec.server_id
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
