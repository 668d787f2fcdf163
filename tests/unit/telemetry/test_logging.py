import io
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog

from mcp_tools_proxy.domain.errors import DocumentNotFound, InternalError
from mcp_tools_proxy.domain.outcome import CallRecord, Failed, Ok, Outcome
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail
from mcp_tools_proxy.telemetry.call_events import CallTelemetry
from mcp_tools_proxy.telemetry.logging import configure_logging, set_log_level
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.builders import make_call
from tests.support.fakes import FakeTool


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Configure logging to memory; restore it afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    captured = io.StringIO()
    configure_logging("info", captured)
    yield captured
    structlog.reset_defaults()
    root.handlers, root.level = handlers, level


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def record(outcome: Outcome | None, **arguments: object) -> CallRecord:
    tool = FakeTool(properties=("doc_id", "query"))
    call = make_call("fake", arguments)
    return CallRecord(call=call, spec=tool.spec, outcome=outcome, duration_s=0.0015)


OK = Ok(
    spec=FakeTool().spec,
    result={"text": "secret text"},
    result_json=b'{"text":"secret text"}',
    tokens=7,
)


def test_a_line_has_exactly_five_keys(stream: io.StringIO) -> None:
    structlog.get_logger().info("something", a=1, trace_id="t")
    (line,) = lines(stream)
    assert (set(line), line["payload"], line["trace_id"]) == (
        {"timestamp", "level", "event", "payload", "trace_id"},
        {"a": 1},
        "t",
    )


@pytest.mark.parametrize("name", ["mcp.client.session", "mcp.shared.dispatcher", "aiohttp.client"])
def test_libraries_that_log_data_of_servers_are_silenced(stream: io.StringIO, name: str) -> None:
    logging.getLogger(name).error("the server sent %s", "secret text")
    assert lines(stream) == []


def test_errors_of_the_mcp_library_are_logged_with_place_and_type_only(
    stream: io.StringIO,
) -> None:
    sdk = logging.getLogger("mcp.server.streamable_http_manager")
    sdk.warning("Rejecting request for session %s", "secret id")
    try:
        raise ValueError("secret text")
    except ValueError:
        sdk.exception("Session secret id crashed")
    (line,) = lines(stream)
    place, _, kind = line["event"].partition(" ")
    assert (place.rpartition(":")[0], kind, line["level"], line["payload"]) == (
        "mcp.server.streamable_http_manager",
        "ValueError",
        "error",
        {},
    )


def test_a_line_of_a_library_has_the_same_format(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").warning("told %s", "you")
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["payload"]) == ("told you", "warn", {})


def test_a_call_is_one_line_of_identifiers_and_sizes(stream: io.StringIO) -> None:
    CallTelemetry(Metrics(), AuditTrail()).log_end(
        record(OK, doc_id="d", query="secret query", other="x")
    )
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["trace_id"], line["payload"]) == (
        "tool.call",
        "info",
        "trace-1",
        {
            "code": "OK",
            "kind": "tool",
            "tool": "fake",
            "tenant_id": "tenant_1",
            "user_id": "user_1",
            "entry": "internal",
            "duration_ms": 1.5,
            "arguments": ["doc_id", "query"],
            "doc_id": "d",
            "preset": None,
            "generation": 0,
            "result_bytes": 22,
            "tokens": 7,
        },
    )


@pytest.mark.parametrize(
    ("outcome", "level", "code"),
    [
        (OK, "info", "OK"),
        (Failed(error=DocumentNotFound("x")), "warn", "DOCUMENT_NOT_FOUND"),
        (Failed(error=InternalError("x")), "error", "INTERNAL_ERROR"),
        (None, "warn", "CANCELLED"),
    ],
    ids=["ok", "denied", "crashed", "cancelled"],
)
def test_the_level_follows_the_outcome(
    stream: io.StringIO, outcome: Outcome | None, level: str, code: str
) -> None:
    CallTelemetry(Metrics(), AuditTrail()).log_end(record(outcome))
    (line,) = lines(stream)
    assert (line["level"], line["payload"]["code"]) == (level, code)


def test_a_callers_string_is_escaped_and_truncated(stream: io.StringIO) -> None:
    given = '"\u202e' + "x" * 200
    call = replace(make_call("fake"), client_name=given)
    failed = CallRecord(call=call, spec=None, outcome=Failed(error=InternalError()), duration_s=0)
    CallTelemetry(Metrics(), AuditTrail()).log_end(failed)
    text = stream.getvalue()
    assert (text.isascii(), text.count("\n")) == (True, 1)
    assert lines(stream)[0]["payload"]["client"] == given[:128]


def test_lines_below_the_level_are_omitted(stream: io.StringIO) -> None:
    structlog.get_logger().debug("detail")
    assert stream.getvalue() == ""


def test_a_changed_level_applies_to_existing_and_bound_loggers(
    stream: io.StringIO,
) -> None:
    used, bound = structlog.get_logger(), structlog.get_logger().bind(room="a")
    used.info("before")
    shown = []
    for level in ("debug", "error", "warning", "info"):
        set_log_level(level)
        before = len(lines(stream))
        for log in (used, bound, structlog.get_logger()):
            for method in ("debug", "info", "warning", "error"):
                getattr(log, method)(method)
        shown.append(len(lines(stream)) - before)
        assert bound.is_enabled_for(logging.DEBUG) == (level == "debug")
    assert shown == [12, 3, 6, 9]


@pytest.mark.parametrize(
    ("level", "events"),
    [
        ("debug", ["uvicorn info", "uvicorn warning", "uvicorn error", "httpx warning"]),
        ("info", ["uvicorn info", "uvicorn warning", "uvicorn error", "httpx warning"]),
        ("warning", ["uvicorn warning", "uvicorn error", "httpx warning"]),
        ("error", ["uvicorn error"]),
    ],
)
def test_a_changed_level_applies_to_libraries_but_never_enables_details(
    stream: io.StringIO, level: str, events: list[str]
) -> None:
    set_log_level(level)
    for method in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger("uvicorn.error"), method)(f"uvicorn {method}")
    for method in ("debug", "info", "warning"):
        getattr(logging.getLogger("httpx"), method)(f"httpx {method}")
    logging.getLogger("mcp.client.session").error("the server sent a secret")
    assert [line["event"] for line in lines(stream)] == events


def test_a_traceback_stays_inside_its_line(stream: io.StringIO) -> None:
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        structlog.get_logger().exception("crashed")
    (line,) = lines(stream)
    assert "boom" in line["payload"]["exception"]


def test_a_closed_output_does_not_stop_the_service() -> None:
    class ClosedStream(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    try:
        configure_logging("info", ClosedStream())
        structlog.get_logger().info("unheard")
        logging.getLogger("uvicorn.error").info("unheard")
    finally:
        structlog.reset_defaults()
        root.handlers, root.level = handlers, level


def test_a_console_line_has_escaped_texts_and_a_traceback_below() -> None:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    captured = io.StringIO()
    configure_logging("info", captured, for_people=True)
    try:
        log = structlog.get_logger()
        log.info("a.thing", word="plain", text="two words", number=3, trace_id="t-1")
        log.warning("b.thing", text="\x1b[31m red \x7f \u202e\nsecond")
        try:
            raise ValueError("wrong \x1b[31m")
        except ValueError:
            log.exception("c.thing")
    finally:
        structlog.reset_defaults()
        root.handlers, root.level = handlers, level
    first, second, third, *traceback = captured.getvalue().splitlines()
    assert first[8:] == ' info  a.thing word=plain text="two words" number=3 trace_id=t-1'
    assert second[8:].startswith(" warn  b.thing text=")
    assert third[8:] == " error c.thing"
    assert traceback[0] == "  Traceback (most recent call last):"
    assert "ValueError: wrong" in traceback[-1]
    assert all(line.isprintable() and line.isascii() for line in captured.getvalue().splitlines())
