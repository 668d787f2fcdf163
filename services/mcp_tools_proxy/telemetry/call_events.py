"""The log lines and the metrics of a call.

A call of ours is one ``tool.call`` line. A call for a downstream server is F-20's chain: a debug
line ``llm_to_facade.request`` when it enters, those of the downstream room, and one final line,
``facade_to_llm.response`` or ``.error``. What the preset or the agent's profile refuses is one
line, ``proxy.tool.denied``, ``proxy.prompt.denied`` or ``proxy.resource.denied``, with the reason
that its caller is not told. ``code`` stands where broxy has an error's text, sizes where it has
arguments and results.
"""

import logging

import structlog
from prometheus_client import Counter, Histogram

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.errors import (
    ContentBlocked,
    NotAllowed,
    PromptNotFound,
    ProxyError,
    ResourceNotFound,
)
from mcp_tools_proxy.domain.outcome import CallRecord, Failed, Ok
from mcp_tools_proxy.telemetry.metrics import UNKNOWN_TOOL, Metrics
from mcp_tools_proxy.wire.text import QUOTE_CHARS

LOCAL = "tool.call"
ENTERED = "llm_to_facade.request"
ANSWERED = "facade_to_llm.response"
FAILED = "facade_to_llm.error"
DENIED = {kind: f"proxy.{kind.value}.denied" for kind in Kind}

CANCELLED = "CANCELLED"
"""The ``code`` of a call whose caller went away."""

UNKNOWN_SERVER = "unknown"
"""The ``targetServerId`` of a name that nothing visible has."""

NAME_KEYS = {Kind.TOOL: "toolName", Kind.PROMPT: "promptName", Kind.RESOURCE: "resourceUri"}
"""What the name of each kind is called in the events of a downstream call."""

_LEVEL_OF_CODE = {"OK": "info", "INTERNAL_ERROR": "error"}
"""Any other code is a denial or a failure that its caller can react to: a warning."""


class CallTelemetry:
    """Tells what became of each call: identifiers, codes, sizes; never texts (contract §7)."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._meters: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._log = structlog.get_logger().bind()  # bound once: the lazy one binds at each line

    def entered(self, call: Call, spec: ComponentSpec) -> None:
        """Write the debug line of a call that is for a downstream server."""
        if not self._log.is_enabled_for(logging.DEBUG):
            return
        self._log.debug(
            ENTERED,
            trace_id=call.trace_id,
            **_target(call, spec),
            **_caller(call),
            arguments=declared_arguments(call, spec),
        )

    def __call__(self, record: CallRecord) -> None:
        """Write the last line of a call and count it."""
        code = _code(record)
        label = _label(record)
        calls, seconds = self._meters.get((label, code)) or self._add_meters(label, code)
        calls.inc()
        seconds.observe(record.duration_s)
        level = _LEVEL_OF_CODE.get(code, "warning")
        denial = _denial(record)
        event = _event(record) if denial is None else DENIED[record.call.kind]
        getattr(self._log, level)(
            event, trace_id=record.call.trace_id, code=code, **_payload(event, record, denial)
        )

    def _add_meters(self, tool: str, code: str) -> tuple[Counter, Histogram]:
        """Find the metrics' children once: looking labels up takes as long as counting."""
        meters = (
            self._metrics.calls.labels(tool, code),
            self._metrics.call_seconds.labels(tool),
        )
        self._meters[tool, code] = meters
        return meters


def declared_arguments(call: Call, spec: ComponentSpec) -> list[str]:
    """Name the arguments given, of those that the component declares."""
    return [name for name in call.arguments if name in spec.argument_names]


def _code(record: CallRecord) -> str:
    match record.outcome:
        case Ok():
            return "OK"
        case Failed(error=error):
            return error.code
        case None:
            return CANCELLED


def _label(record: CallRecord) -> str:
    """Give the metrics' ``tool`` label.

    A server may offer any number of prompts and resources, so those are counted for their server:
    ``notes/prompts``, ``notes/resources``. No tool is named like that.
    """
    spec = record.spec
    if spec is None:
        return UNKNOWN_TOOL
    if record.call.kind is Kind.TOOL:
        return spec.name
    return f"{spec.server_id}/{record.call.kind.value}s"


def _denial(record: CallRecord) -> ProxyError | None:
    """Return what refused the call; what is there and hidden is not found by its caller."""
    match record.outcome:
        case Failed(error=NotAllowed() as error):
            return error
        case Failed(error=PromptNotFound() | ResourceNotFound() as error) if error.reason:
            return error
    return None


def _event(record: CallRecord) -> str:
    local = record.spec is None or record.spec.server_id is None
    if local and record.call.kind is Kind.TOOL:
        return LOCAL
    return ANSWERED if isinstance(record.outcome, Ok) else FAILED


def _payload(event: str, record: CallRecord, denial: ProxyError | None) -> dict[str, object]:
    call, spec = record.call, record.spec
    payload: dict[str, object] = {}
    if event == LOCAL:
        payload["tool"] = _shown(call.name)
    elif denial is not None:
        payload |= {NAME_KEYS[call.kind]: _shown(call.name), "reason": denial.reason}
    else:
        payload |= _target(call, spec)
    payload |= _caller(call)
    payload["duration_ms"] = round(record.duration_s * 1000, 3)
    if spec is not None:
        payload["arguments"] = declared_arguments(call, spec)
        doc_id = call.arguments.get("doc_id")
        if isinstance(doc_id, str) and "doc_id" in spec.argument_names:
            payload["doc_id"] = _shown(doc_id)
    if isinstance(record.outcome, Failed) and isinstance(record.outcome.error, ContentBlocked):
        blocked = record.outcome.error
        payload |= {**(blocked.details or {}), "keyword": blocked.reason}
    if isinstance(record.outcome, Ok):
        payload["result_bytes"] = len(record.outcome.result_json)
        payload["tokens"] = record.outcome.tokens
    return payload


def _target(call: Call, spec: ComponentSpec | None) -> dict[str, object]:
    """Say what the call is for. A URI read through a template is told as the template.

    The values that such a URI holds are arguments; so is what a caller spells that nothing matches,
    but without it a wrong name could not be found.
    """
    key = NAME_KEYS[call.kind]
    if spec is None:
        return {key: _shown(call.name), "targetServerId": UNKNOWN_SERVER}
    target: dict[str, object] = {key: _shown(spec.name), "targetServerId": spec.server_id}
    if call.kind is Kind.TOOL:
        target["downstreamTool"] = _shown(spec.bare_name)
    return target


def _caller(call: Call) -> dict[str, object]:
    caller = call.caller
    shown: dict[str, object] = {
        "tenant_id": _shown(caller.tenant_id),
        "user_id": _shown(caller.user_id),
    }
    if caller.agent is not None:
        shown["agent"] = _shown(caller.agent)
    return {**shown, **caller.proof} if caller.proof else shown


def _shown(text: str) -> str:
    """Cut a caller's string; JSON in ASCII escapes the rest."""
    return text[:QUOTE_CHARS]
