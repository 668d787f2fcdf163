"""Traces of the program with failing and hanging collectors, and without tracing."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.held_port import free_port
from tests.support.otlp_receiver import ENDPOINT, Receiver, receiving, sdk_variables
from tests.support.program import Program, started, wait_until
from tests.support.program_launch import CLEAN, run
from tests.support.service import EXECUTE, request_of

pytestmark = pytest.mark.e2e

REQUEST = f"POST {EXECUTE}"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as it:
        yield it


def call(program: Program) -> str:
    body = request_of("read_doc_metadata", {"doc_id": "doc_1"})
    response = program.http.post(EXECUTE, json=body)
    assert response.json()["status"] == "ok", response.text
    return response.headers["X-Trace-Id"]


def events(program: Program) -> list[str]:
    """Return the log's events about traces, and the SDK's output."""
    ours = ("traces.", "Failed", "Transient", "Queue", "Exception")
    return [line["event"] for line in program.log_lines() if line["event"].startswith(ours)]


def test_pending_spans_are_exported_at_the_end(tmp_path: Path, receiver: Receiver) -> None:
    slow = {**sdk_variables(receiver.url), "OTEL_BSP_SCHEDULE_DELAY": "3600000"}
    with started(tmp_path, slow) as program:
        trace_id = call(program)
        assert receiver.requests == 0
        assert program.stop() == -signal.SIGTERM
    assert [span.trace_id for span in receiver.named(REQUEST)] == [trace_id]


def test_a_file_of_settings_turns_traces_on(tmp_path: Path, receiver: Receiver) -> None:
    lines = [f"{name}={value}" for name, value in sdk_variables(receiver.url).items()]
    (tmp_path / ".env").write_text("\n".join(lines), encoding="utf-8")
    with started(tmp_path) as program:
        trace_id = call(program)
        wait_until(lambda: bool(receiver.named(REQUEST)))
    assert receiver.one(REQUEST).trace_id == trace_id


def test_a_failing_collector_costs_one_line_and_a_count(tmp_path: Path, receiver: Receiver) -> None:
    receiver.status = 500
    with started(tmp_path, sdk_variables(receiver.url)) as program:
        for count in (1, 2, 3):
            call(program)
            wait_until(lambda count=count: receiver.requests >= count)  # type: ignore[misc]  # bound now
        wait_until(lambda: events(program) == ["traces.export_failed"])
        failed = next(it for it in program.log_lines() if it["event"] == "traces.export_failed")
        assert failed["payload"] == {"reason": "HTTP status 500"}
        metrics = program.http.get("/metrics").text
        receiver.status = 200
        call(program)
        wait_until(lambda: events(program) == ["traces.export_failed", "traces.export_recovered"])
    assert "mcp_proxy_trace_spans_lost_total 0.0" not in metrics


def test_an_unreachable_or_hanging_collector_delays_neither_calls_nor_the_end(
    tmp_path: Path, receiver: Receiver
) -> None:
    """The exporter would wait an hour here, so an end that waits for it would time out."""
    receiver.held.clear()
    for number, url in enumerate((f"http://127.0.0.1:{free_port()}", receiver.url)):
        folder = tmp_path / str(number)
        folder.mkdir()
        hour = {**sdk_variables(url), "OTEL_EXPORTER_OTLP_TIMEOUT": "3600"}
        with started(folder, {**hour, "MCP_PROXY_SHUTDOWN_GRACE_S": "0.1"}) as program:
            for _ in range(5):
                call(program)
            assert program.stop() == -signal.SIGTERM


OFF = """
import json, sys
from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
create_app(Settings())
parts = ("opentelemetry.sdk", "opentelemetry.exporter", "google.protobuf", "requests")
print(json.dumps([name for name in sys.modules if name.startswith(parts)]))
"""


def test_without_tracing_the_sdk_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "off_probe.py").write_text(OFF, encoding="utf-8")
    path = {"PYTHONPATH": f"{tmp_path}:{CLEAN['PYTHONPATH']}"}
    code, printed, complaint = run(tmp_path, module="off_probe", fresh=True, **path)
    assert (code, json.loads(printed)) == (0, []), complaint


MISSING = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from mcp_tools_proxy.cli.main import main
main()
"""


@pytest.mark.parametrize("command", ["serve", "stdio", "check"])
def test_without_the_extra_an_endpoint_stops_the_start(tmp_path: Path, command: str) -> None:
    (tmp_path / "missing_probe.py").write_text(MISSING, encoding="utf-8")
    environment = {
        "PYTHONPATH": f"{tmp_path}:{CLEAN['PYTHONPATH']}",
        ENDPOINT: "http://collector:4318",
    }
    code, printed, complaint = run(
        tmp_path, command, module="missing_probe", fresh=True, **environment
    )
    assert (code, printed, complaint) == (
        2,
        "",
        f"mcp-tools-proxy: {ENDPOINT}: is set, but the packages for traces are missing; run pip "
        "install 'mcp-tools-proxy[otel]', or unset it\n",
    )
