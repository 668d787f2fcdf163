"""Records and metrics of calls.

Each call has one record, a line in log and audit. The event is ``tool.call`` for local tools and
``resource.call`` for documents as resources. A call for a downstream server follows F-20: a debug
line ``llm_to_facade.request`` at the start, the lines of ``downstream``, and the record
``facade_to_llm.response`` or ``.error``. A call denied by preset or profile is
``proxy.tool.denied``, ``proxy.prompt.denied`` or ``proxy.resource.denied``, with a reason that the
caller does not receive. Unlike in broxy, the origin of these events, they have ``code`` and sizes
in place of error texts, arguments and results.

All records name the target in ``tool``, ``prompt`` or ``resource``, and ``server_id``. Records of
servers also have broxy's names: ``toolName``, ``targetServerId``.
"""

import logging
import re

import structlog

from mcp_tools_proxy.domain.audit import CHECK_OF_CODE
from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.errors import (
    ContentBlocked,
    NotAllowed,
    PromptNotFound,
    ProxyError,
    RateLimitExceeded,
    ResourceNotFound,
)
from mcp_tools_proxy.domain.outcome import (
    CANCELLED,
    CallRecord,
    Failed,
    Ok,
    Outcome,
    PolicyNote,
    RunNote,
)
from mcp_tools_proxy.telemetry.metrics import UNKNOWN_TOOL, Metrics
from mcp_tools_proxy.telemetry.recorder import (
    Bound,
    Recorder,
    caller_fields,
    cut,
    decision_fields,
)
from mcp_tools_proxy.telemetry.spans import current_trace_id
from mcp_tools_proxy.wire.identifiers import is_identifier

LOCAL = {Kind.TOOL: "tool.call", Kind.RESOURCE: "resource.call"}
STARTED = "llm_to_facade.request"
ANSWERED = "facade_to_llm.response"
FAILED = "facade_to_llm.error"
DENIED = {kind: f"proxy.{kind.value}.denied" for kind in Kind}

UNKNOWN_SERVER = "unknown"
"""The ``targetServerId`` for a name without a visible component."""

CALL_EVENTS = frozenset({*LOCAL.values(), ANSWERED, FAILED, *DENIED.values()})
"""Events of call records; each call has one, written at its end."""

NAME_KEYS = {Kind.TOOL: "toolName", Kind.PROMPT: "promptName", Kind.RESOURCE: "resourceUri"}
"""The log field with the component's name, in the events of a downstream call."""

_MANY_ARGUMENTS = 1_000

_UNTIL_PATH = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/*[^/?#;]*")
_LEVEL_OF_CODE = {"OK": "info", "INTERNAL_ERROR": "error"}
"""Other codes are denials or failures that the caller can handle: warnings."""


class CallTelemetry:
    """Records and counts all calls: identifiers, codes, sizes; never texts (contract §7)."""

    def __init__(self, metrics: Metrics, recorder: Recorder) -> None:
        self._metrics = metrics
        self._recorder = recorder
        self._log = structlog.get_logger().bind()  # bound once: the lazy proxy binds for each line

    def log_start(self, call: Call, spec: ComponentSpec) -> None:
        """Log the debug line at the start of a call for a downstream server."""
        if not self._log.is_enabled_for(logging.DEBUG):
            return
        self._log.debug(
            STARTED,
            trace_id=call.trace_id,
            **_target(call, spec),
            tenant_id=call.caller.tenant_id,
            user_id=call.caller.user_id,
            arguments=declared_arguments(call, spec),
        )

    def log_end(self, record: CallRecord) -> None:
        """Record and count a finished call."""
        code = record.code
        self._count(record, code)
        level = _LEVEL_OF_CODE.get(code, "warning")
        denial = _denial(record)
        event = _event(record) if denial is None else DENIED[record.call.kind]
        self._recorder.record(
            level,
            event,
            record.call.trace_id,
            _payload(code, event, record, denial),
            reserved=record.has_audit_place,
            bound=None if record.is_charged else _bound_of(code),
        )

    def _count(self, record: CallRecord, code: str) -> None:
        tenant_id = record.call.caller.tenant_id
        totals = self._metrics.call_totals.row(_label(record), code, tenant_id)
        totals.add(record.duration_s)
        for it in record.guards:
            self._metrics.guard_findings.labels(it.guard, it.place, it.action).inc(it.count)
        if record.run is not None:
            for fired in record.run.policies:
                self._metrics.policies_fired.labels(fired.policy_id, fired.mode).inc()
        match record.outcome:
            case Ok(tokens=tokens, result_json=result_json):
                totals.tokens += tokens
                totals.result_bytes += len(result_json)
            case Failed(error=RateLimitExceeded(details=details)):
                tenant = self._metrics.call_totals.tenant_label(tenant_id)
                budget = str((details or {}).get("budget"))
                self._metrics.tenant_limit_refusals.labels(tenant, budget).inc()


def declared_arguments(call: Call, spec: ComponentSpec) -> list[str]:
    """Return the names of the call's arguments that the component declares.

    Undeclared names are the caller's data, which must not be logged.
    """
    names = spec.argument_names
    if len(call.arguments) > _MANY_ARGUMENTS:  # most are not declared: 80,000 took 12 ms
        return sorted(name for name in names if name in call.arguments)
    return [name for name in call.arguments if name in names]


def _bound_of(code: str) -> Bound:
    return Bound.DONE if code == "OK" else Bound.REFUSED


def _label(record: CallRecord) -> str:
    """Return the metrics' ``tool`` label.

    Prompts and resources, whose number is unbounded, are counted per server: ``notes/prompts``,
    ``notes/resources``, and ``/resources`` for the gateway's own. Tools cannot have such names.
    """
    spec = record.spec
    if spec is None:
        return UNKNOWN_TOOL
    if record.call.kind is Kind.TOOL:
        return spec.name
    return f"{spec.server_id or ''}/{record.call.kind.value}s"


def _denial(record: CallRecord) -> ProxyError | None:
    """Return the error if the call was denied, including "not found" for a hidden item."""
    match record.outcome:
        case Failed(error=NotAllowed() as error):
            return error
        case Failed(error=PromptNotFound() | ResourceNotFound() as error) if error.reason:
            return error
    return None


def _event(record: CallRecord) -> str:
    kind = record.call.kind
    if kind is Kind.TOOL if record.spec is None else record.spec.server_id is None:
        return LOCAL[kind]
    return ANSWERED if isinstance(record.outcome, Ok) else FAILED


def _payload(
    code: str, event: str, record: CallRecord, denial: ProxyError | None
) -> dict[str, object]:
    call, spec = record.call, record.spec
    payload: dict[str, object] = {"code": code, "kind": str(call.kind)}
    if event == LOCAL[Kind.TOOL]:
        payload["tool"] = cut(call.name)
    elif denial is not None:
        payload |= {**_named(call, _name_of(call, denial)), "reason": denial.reason}
        if denial.denied_server is not None:
            payload["server_id"] = payload["targetServerId"] = denial.denied_server
    else:
        payload |= _target(call, spec)
    payload |= caller_fields(call.caller)
    if call.route:
        payload["route"] = call.route
    if call.client_name is not None:
        payload["client"] = cut(call.client_name)
    payload["duration_ms"] = round(record.duration_s * 1000, 3)
    if spec is not None:
        payload["arguments"] = declared_arguments(call, spec)
        if record.document_version is not None or _names_document(call, spec):
            payload["doc_id"] = call.arguments["doc_id"]
    _add_state(payload, record)
    _add_outcome(payload, record.outcome)
    return payload


def _names_document(call: Call, spec: ComponentSpec) -> bool:
    """Return whether ``doc_id`` is an id; other text is the caller's data."""
    doc_id = call.arguments.get("doc_id")
    return isinstance(doc_id, str) and "doc_id" in spec.argument_names and is_identifier(doc_id)


def _add_state(payload: dict[str, object], record: CallRecord) -> None:
    if record.document_version is not None:
        payload["document_version"] = record.document_version
    payload["preset"], payload["generation"] = record.registry
    if record.guards:
        payload["guards"] = [it.as_json for it in record.guards]
    if record.call.run is not None:
        payload["run_id"] = record.call.run.run_id
    if record.run is not None:
        _add_run(payload, record.run)
    otel_trace_id = current_trace_id()
    if otel_trace_id is not None and otel_trace_id != record.call.trace_id:
        payload["otel_trace_id"] = otel_trace_id


def _add_run(payload: dict[str, object], run: RunNote) -> None:
    if run.number is not None:
        payload["run_call"] = run.number
    if run.labels:
        payload["labels"] = run.labels
    if run.policies:
        payload["policies"] = [_policy(it) for it in run.policies]
    if run.read:
        payload["read"] = [it.as_json for it in run.read]
    if run.approval_id is not None:
        payload["approval_id"] = run.approval_id


def _policy(fired: PolicyNote) -> dict[str, str]:
    shown = {"id": fired.policy_id, "mode": fired.mode}
    return shown if fired.message is None else {**shown, "message": fired.message}


def _add_outcome(payload: dict[str, object], outcome: Outcome | None) -> None:
    if isinstance(outcome, Ok):
        payload["result_bytes"], payload["tokens"] = len(outcome.result_json), outcome.tokens
    elif isinstance(outcome, Failed):
        payload |= decision_fields(outcome.error)
        if isinstance(outcome.error, ContentBlocked):
            payload |= {**(outcome.error.details or {}), "keyword": outcome.error.reason}
        elif outcome.error.reason is not None:  # for operators only
            payload["reason"] = outcome.error.reason
    else:
        payload["check"] = CHECK_OF_CODE[CANCELLED]
        return
    if outcome.budget is not None:
        payload["budget"] = outcome.budget.as_json
    if outcome.replayed:
        payload["replayed"] = True


def _name_of(call: Call, denial: ProxyError | None) -> str:
    """Return the name in the record of a refused call.

    For a resource denied by a rule, it is the listed URI or template; for another URI only the part
    before the path, which can contain arguments.
    """
    if call.kind is not Kind.RESOURCE:
        return cut(call.name)
    if denial is not None and denial.denied_name is not None:
        return cut(denial.denied_name)
    found = _UNTIL_PATH.match(call.name)
    return "" if found is None else cut(found[0])


def _target(call: Call, spec: ComponentSpec | None) -> dict[str, object]:
    """Return the log fields of the call's target.

    A URI matched by a template is logged as the template, because its values are arguments. A name
    without a match is logged as sent, so that it can be found.
    """
    if spec is None:
        return {**_named(call, _name_of(call, None)), "targetServerId": UNKNOWN_SERVER}
    target = _named(call, cut(spec.name))
    if spec.server_id is None:
        return target
    target["server_id"] = target["targetServerId"] = spec.server_id
    if call.kind is Kind.TOOL:
        target["downstreamTool"] = cut(spec.bare_name)
    return target


def _named(call: Call, name: str) -> dict[str, object]:
    """Return both fields of a component's name, such as ``tool`` and ``toolName``."""
    return {call.kind.value: name, NAME_KEYS[call.kind]: name}
