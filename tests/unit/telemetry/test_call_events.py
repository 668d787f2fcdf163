"""The log events of a call to a downstream server (contract §7, A.7)."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.errors import (
    InternalError,
    PromptNotFound,
    ToolFailed,
    ToolNotAllowed,
    ToolNotFound,
)
from mcp_tools_proxy.domain.outcome import CallRecord, Failed, Ok, Outcome
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail
from mcp_tools_proxy.telemetry.call_events import CallTelemetry
from mcp_tools_proxy.telemetry.logging import configure_logging
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.builders import make_call
from tests.support.fakes import FakePrompt, FakeTemplate, FakeTool

TOOL = FakeTool(name="notes:find", server_id="notes", properties=("query", "doc_id")).spec
LOCAL_TOOL = FakeTool(name="find", properties=("query", "doc_id")).spec
OK = Ok(spec=TOOL, result={"content": []}, result_json=b'{"content":[]}', tokens=7)
PROMPT = FakePrompt("hello", server_id="notes", arguments=("who",)).spec
TEMPLATE = FakeTemplate("u://", server_id="notes").spec


class LoggedCalls:
    """A telemetry and its log lines."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream
        self.metrics = Metrics()
        self.telemetry = CallTelemetry(self.metrics, AuditTrail())

    def end(self, call: Call, spec: ComponentSpec | None, outcome: Outcome | None) -> None:
        self.telemetry.log_end(CallRecord(call=call, spec=spec, outcome=outcome, duration_s=0.0015))

    @property
    def line(self) -> dict[str, Any]:
        """Return the only line."""
        (line,) = self.lines
        return line

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]


@pytest.fixture
def logged() -> Iterator[LoggedCalls]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    stream = io.StringIO()
    configure_logging("debug", stream)
    yield LoggedCalls(stream)
    structlog.reset_defaults()
    root.handlers, root.level = handlers, level


@pytest.mark.requirement("F-20")
def test_a_started_call_is_logged_with_the_names_of_its_arguments(logged: LoggedCalls) -> None:
    logged.telemetry.log_start(make_call("notes__find", {"query": "secret", "x": 1}), TOOL)
    line = logged.line
    assert (line["event"], line["level"], line["trace_id"], line["payload"]) == (
        "llm_to_facade.request",
        "debug",
        "trace-1",
        {
            "tool": "notes:find",
            "toolName": "notes:find",
            "server_id": "notes",
            "targetServerId": "notes",
            "downstreamTool": "find",
            "tenant_id": "tenant_1",
            "user_id": "user_1",
            "arguments": ["query"],
        },
    )


@pytest.mark.requirement("F-20", "F-23")
def test_an_answered_call_is_logged_with_sizes_and_names(logged: LoggedCalls) -> None:
    logged.end(make_call("notes:find", {"query": "secret", "doc_id": "d"}), TOOL, OK)
    line = logged.line
    assert (line["event"], line["level"], line["trace_id"], line["payload"]) == (
        "facade_to_llm.response",
        "info",
        "trace-1",
        {
            "code": "OK",
            "kind": "tool",
            "tool": "notes:find",
            "toolName": "notes:find",
            "server_id": "notes",
            "targetServerId": "notes",
            "downstreamTool": "find",
            "tenant_id": "tenant_1",
            "user_id": "user_1",
            "entry": "internal",
            "duration_ms": 1.5,
            "arguments": ["query", "doc_id"],
            "doc_id": "d",
            "preset": None,
            "generation": 0,
            "result_bytes": 14,
            "tokens": 7,
        },
    )


@pytest.mark.requirement("F-21")
@pytest.mark.parametrize(
    ("outcome", "level", "code"),
    [
        (Failed(error=ToolFailed("secret")), "warn", "TOOL_FAILED"),
        (Failed(error=InternalError("secret")), "error", "INTERNAL_ERROR"),
        (None, "warn", "CANCELLED"),
    ],
    ids=["failed", "crashed", "cancelled"],
)
def test_a_failed_call_is_logged_with_its_code(
    logged: LoggedCalls, outcome: Outcome | None, level: str, code: str
) -> None:
    logged.end(make_call("notes:find"), TOOL, outcome)
    line = logged.line
    assert (line["event"], line["level"], line["payload"]["code"], "secret" in str(line)) == (
        "facade_to_llm.error",
        level,
        code,
        False,
    )


@pytest.mark.requirement("F-09", "F-22")
def test_a_tool_refused_by_the_preset_is_logged_with_the_reason(logged: LoggedCalls) -> None:
    refusal = ToolNotAllowed("no", reason="not visible under the active preset")
    logged.end(make_call("notes:drop", {"q": "x"}), None, Failed(error=refusal))
    line = logged.line
    assert (line["event"], line["level"], line["payload"]) == (
        "proxy.tool.denied",
        "warn",
        {
            "code": "TOOL_NOT_ALLOWED",
            "kind": "tool",
            "tool": "notes:drop",
            "toolName": "notes:drop",
            "reason": "not visible under the active preset",
            "tenant_id": "tenant_1",
            "user_id": "user_1",
            "entry": "internal",
            "duration_ms": 1.5,
            "preset": None,
            "generation": 0,
            "check": "visibility",
        },
    )


def test_calls_to_documents_and_servers_have_the_same_fields(logged: LoggedCalls) -> None:
    for spec in (LOCAL_TOOL, TOOL):
        logged.end(make_call(spec.name, {"query": "x"}), spec, OK)
    local, remote = (set(line["payload"]) for line in logged.lines)
    assert remote - local == {"server_id", "toolName", "targetServerId", "downstreamTool"}
    assert local - remote == set()


def test_an_unknown_tool_name_is_logged_as_a_local_call(logged: LoggedCalls) -> None:
    logged.end(make_call("nope"), None, Failed(error=ToolNotFound("no")))
    assert (logged.line["event"], logged.line["payload"]["tool"]) == ("tool.call", "nope")


@pytest.mark.parametrize(
    ("call", "spec", "target"),
    [
        (
            make_call("hello", {"who": "secret"}, kind=Kind.PROMPT),
            PROMPT,
            {
                "prompt": "hello",
                "promptName": "hello",
                "server_id": "notes",
                "targetServerId": "notes",
                "arguments": ["who"],
            },
        ),
        (
            make_call("u://secret", kind=Kind.RESOURCE),
            TEMPLATE,
            {
                "resource": "u://{rest}",
                "resourceUri": "u://{rest}",
                "server_id": "notes",
                "targetServerId": "notes",
                "arguments": [],
            },
        ),
    ],
    ids=["prompt", "template"],
)
def test_prompts_and_resources_are_logged_alike(
    logged: LoggedCalls, call: Call, spec: ComponentSpec, target: dict[str, object]
) -> None:
    logged.end(call, spec, OK)
    payload = logged.line["payload"]
    assert ({key: payload[key] for key in target}, "secret" in str(payload)) == (target, False)


def test_the_agent_is_logged_if_present(logged: LoggedCalls) -> None:
    logged.end(make_call("notes:find", agent="a" * 500), TOOL, OK)
    assert logged.line["payload"]["agent"] == "a" * 500


def test_the_server_of_an_unknown_prompt_is_unknown(logged: LoggedCalls) -> None:
    logged.end(make_call("nope", kind=Kind.PROMPT), None, Failed(error=PromptNotFound("no")))
    payload = logged.line["payload"]
    assert (logged.line["event"], payload["promptName"], payload["targetServerId"]) == (
        "facade_to_llm.error",
        "nope",
        "unknown",
    )


@pytest.mark.parametrize(
    ("kind", "spec", "label"),
    [
        (Kind.TOOL, TOOL, "notes:find"),
        (Kind.TOOL, None, "unknown"),
        (Kind.PROMPT, PROMPT, "notes/prompts"),
        (Kind.RESOURCE, TEMPLATE, "notes/resources"),
        (Kind.RESOURCE, None, "unknown"),
    ],
)
def test_the_number_of_call_labels_is_limited(
    logged: LoggedCalls, kind: Kind, spec: ComponentSpec | None, label: str
) -> None:
    logged.end(make_call("any thing", kind=kind), spec, OK)
    assert f'mcp_proxy_calls_total{{code="OK",tool="{label}"}} 1.0' in (
        logged.metrics.exposition().decode()
    )
