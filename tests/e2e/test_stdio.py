"""``mcp-tools-proxy stdio``: only the protocol on stdout, and a timely end (F-01)."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mcp_tools_proxy.cli.main import app
from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.domain.document import Readers
from tests.e2e.stdio_program import MODERN, StdioProgram, stdio_program
from tests.e2e.stdio_servers import writing_its_pid
from tests.support import leak_checks
from tests.support.builders import make_document
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.requirement("F-01")]

TOOLS = ("echo", "sleep", "hang", "garbage", "half", "crash")


@contextmanager
def behind(
    folder: Path,
    environment: dict[str, str] | None = None,
    *,
    call_timeout_s: float = 60,
    fresh: bool = False,
    **options: object,
) -> Iterator[StdioProgram]:
    """Start the program with a stdio server."""
    entry = raw_entry(only=TOOLS, journal=folder / "journal", **options)
    preset = make_preset(tools=[("s1", tool) for tool in TOOLS])
    servers = {"s1": writing_its_pid(entry, folder / "server.pid")}
    more = {"requestTimeoutSeconds": call_timeout_s}
    Config(servers=servers, presets=[preset], more=more).write(folder / "config")
    with stdio_program(folder, environment, fresh=fresh) as program:
        yield program


def server_pid(folder: Path) -> int:
    return int((folder / "server.pid").read_text())


def ran(folder: Path, tool: str) -> bool:
    journal = folder / "journal"
    return journal.exists() and tool in journal.read_text().splitlines()


def messages(program: StdioProgram) -> list[object]:
    read = [json.loads(line) for line in program.printed]
    assert [message["jsonrpc"] for message in read] == ["2.0"] * len(read)
    return [message.get("id") for message in read]


def test_a_client_calls_a_servers_tool_and_reads_a_document(tmp_path: Path) -> None:
    with behind(tmp_path, fresh=True) as program:
        program.call(1, "s1:echo", text="hé")
        program.call(2, "read_doc_metadata", doc_id="doc_1")
        echoed, read = program.answer(1), program.answer(2)
    assert (
        echoed["result"]["structuredContent"],
        read["result"]["structuredContent"]["doc_id"],
    ) == (
        {"text": "hé"},
        "doc_1",
    )


def test_only_the_protocol_is_printed_with_any_server_output_or_log_level(
    tmp_path: Path,
) -> None:
    """With the lowest log level; the server prints a banner and invalid data, and crashes."""
    loud = {"MCP_PROXY_LOG_LEVEL": "debug"}
    with behind(tmp_path, loud, call_timeout_s=1, banner="Welcome!") as program:
        for id_, tool in enumerate(("garbage", "half", "crash", "nosuch"), 1):
            program.call(id_, f"s1:{tool}")
            assert program.answer(id_)["result"]["isError"] is True
        program.close_stdin()
        assert messages(program) == [1, 2, 3, 4]
        assert [json.loads(line) for line in program.log().splitlines()]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ('{"a": 1, "a": 2}', "params.arguments.more.a"),
        ("[" + "0," * 150_000 + "0]", "body"),
        ("NaN", "body"),
        ("[" * 70 + "]" * 70, "body"),
    ],
    ids=["duplicate key", "too many values", "not a number", "too deep"],
)
def test_requests_that_http_refuses_are_refused_here(tmp_path: Path, more: str, field: str) -> None:
    with behind(tmp_path) as program:
        params = {"name": "s1:echo", "arguments": {"more": "HERE"}, "_meta": MODERN}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        program.send(json.dumps(body).replace('"HERE"', more).encode() + b"\n")
        error = program.answer(1)["error"]
        program.call(2, "s1:echo", text="as before")
        program.answer(2)
        program.close_stdin()
        assert (error["code"], error["data"]["details"]["field"]) == (-32600, field)
        assert messages(program) == [1, 2]


TWICE = '{"jsonrpc": "2.0", "id": 1, "method": "ping", "method": "tools/list"}'
LISTS = [
    {"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {"_meta": MODERN}}
    for number in range(2, 22)
]


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_requests_before_the_end_of_the_input_are_answered(tmp_path: Path, kind: str) -> None:
    """Requests from a file or ``echo``: the input is not kept open for the answers."""
    requests = "\n".join([TWICE, *map(json.dumps, LISTS)]).encode()
    (tmp_path / "requests").write_bytes(requests)
    with (tmp_path / "requests").open("rb") as lines:
        stdin = lines.fileno() if kind == "file" else subprocess.PIPE
        with stdio_program(tmp_path, stdin=stdin) as program:
            if kind == "pipe":
                program.send(requests)
                program.close_stdin()
            assert program.ended() == 0
    answers = {found["id"]: found for found in map(json.loads, program.printed)}
    assert answers.keys() == set(range(1, 22))
    assert [number for number, answer in answers.items() if "error" in answer] == [1]


def test_an_open_stream_does_not_outlive_the_input(tmp_path: Path) -> None:
    with behind(tmp_path) as program:
        program.request(1, "subscriptions/listen", notifications={"toolsListChanged": True})
        program.call(2, "s1:hang")
        program.call(3, "s1:echo", text="the last")
        program.answer(3)
        code = program.close_stdin()
        answers = {found.get("id"): found for found in map(json.loads, program.printed)}
        assert (code, "result" in answers[1], "error" in answers[2]) == (0, True, True)


@pytest.mark.parametrize("stubborn", [False, True])
def test_it_ends_with_its_input_and_its_server_ends_too(tmp_path: Path, stubborn: bool) -> None:
    with behind(tmp_path, stubborn=stubborn) as program:
        program.call(1, "s1:echo")
        program.answer(1)
        code = program.close_stdin()
        assert (code, leak_checks.runs(server_pid(tmp_path))) == (0, False)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_its_server_while_its_input_is_open(tmp_path: Path, sig: int) -> None:
    with behind(tmp_path, stubborn=True) as program:
        program.call(1, "s1:echo")
        program.answer(1)
        code = program.stop(sig)
        assert (code, leak_checks.runs(server_pid(tmp_path))) == (0, False)


def test_a_call_in_flight_is_answered_after_sigterm(tmp_path: Path) -> None:
    with behind(tmp_path) as program:
        program.call(1, "s1:sleep", seconds=1.5)
        wait_until(lambda: ran(tmp_path, "sleep"))
        program.process.send_signal(signal.SIGTERM)
        assert program.answer(1)["result"]["content"] == [{"type": "text", "text": "slept"}]
        program.ended()


def test_a_call_that_outlasts_the_grace_period_gets_an_error(tmp_path: Path) -> None:
    with behind(tmp_path, {"MCP_PROXY_SHUTDOWN_GRACE_S": "0.3"}) as program:
        program.call(1, "s1:hang")
        wait_until(lambda: ran(tmp_path, "hang"))
        program.process.send_signal(signal.SIGTERM)
        assert "SHUTTING_DOWN" in json.dumps(program.answer(1))
        program.ended()


def test_an_end_of_input_during_a_call_leaves_no_process(tmp_path: Path) -> None:
    with behind(tmp_path, stubborn=True) as program:
        program.call(1, "s1:hang")
        wait_until(lambda: ran(tmp_path, "hang"))
        code = program.close_stdin()
        assert (code, leak_checks.runs(server_pid(tmp_path))) == (0, False)


def test_invalid_lines_do_not_affect_others(tmp_path: Path) -> None:
    with stdio_program(tmp_path) as program:
        for line in (b"", b"hello", b"{", b"[]", b"null", b"\xff\xfe\x00", b'{"jsonrpc":"2.0"}'):
            program.send(line + b"\n")
        program.request(1, "tools/list")
        assert "tools" in program.answer(1)["result"]
        assert (program.close_stdin(), "Traceback" in program.log()) == (0, False)
        assert set(messages(program)) <= {1, None}


def test_an_overlong_line_is_logged_and_does_not_affect_others(tmp_path: Path) -> None:
    with stdio_program(tmp_path, {"MCP_PROXY_MAX_REQUEST_BYTES": "100000"}) as program:
        program.request(1, "tools/call", name="x" * 1_000_000)
        program.request(2, "tools/list")
        assert "tools" in program.answer(2)["result"]
        program.close_stdin()
        records = [json.loads(line) for line in program.log().splitlines()]
        (record,) = [it["payload"] for it in records if it["event"] == "facade.line_too_long"]
        assert (messages(program), record["code"], record["entry"]) == (
            [2],
            "PAYLOAD_TOO_LARGE",
            "stdio",
        )


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    with stdio_program(tmp_path) as program:
        program.request(1, "tools/list")
        program.answer(1)
        program.send(b'{"jsonrpc":"2.0","id":2,"method":"tools/li')
        assert (program.close_stdin(), messages(program), "Traceback" in program.log()) == (
            0,
            [1],
            False,
        )


def test_an_empty_input_ends_it(tmp_path: Path) -> None:
    with stdio_program(tmp_path, stdin=subprocess.DEVNULL) as program:
        assert (program.ended(), program.printed) == (0, [])


def test_a_client_that_closes_the_output_ends_it_and_its_server(tmp_path: Path) -> None:
    with behind(tmp_path, stubborn=True) as program:
        program.call(1, "s1:echo")
        program.answer(1)
        pid = server_pid(tmp_path)
        program.stop_listening()
        program.call(2, "s1:echo")
        program.close_stdin()
        assert not leak_checks.runs(pid)


def test_a_stream_of_changes_ends_with_its_result_at_sigterm(tmp_path: Path) -> None:
    with stdio_program(tmp_path) as program:
        program.request(1, "subscriptions/listen", notifications={"toolsListChanged": True})
        program.request(2, "tools/list")
        program.answer(2)
        program.process.send_signal(signal.SIGTERM)
        assert "result" in program.answer(1)
        assert program.ended() == 0


@pytest.mark.parametrize("option", ["--tenant", "--user", "--agent"])
@pytest.mark.parametrize("value", ["", "a\nb", "x" * 257])
def test_it_starts_only_with_valid_identifiers(option: str, value: str) -> None:
    ended = CliRunner().invoke(app, ["stdio", option, value])
    assert (ended.exit_code, "1-256 characters" in ended.output) == (2, True)


@pytest.mark.parametrize(
    ("options", "admitted"),
    [((), False), (("--user", "ann"), True), (("--role", "x", "--role", "audit"), True)],
    ids=["neither", "user", "role"],
)
def test_options_set_the_user_and_the_roles(
    tmp_path: Path, options: tuple[str, ...], *, admitted: bool
) -> None:
    readers = Readers(users=frozenset({"ann"}), roles=frozenset({"audit"}))
    document = make_document(doc_id="payroll", readers=readers)
    write_document(tmp_path / "documents", document, replace=False)
    with stdio_program(tmp_path, None, *options) as program:
        program.call(1, "read_doc_metadata", doc_id="payroll")
        assert ("ACCESS_DENIED" in json.dumps(program.answer(1))) is not admitted
        assert program.close_stdin() == 0


def test_options_set_the_only_readable_documents(tmp_path: Path) -> None:
    write_document(tmp_path / "documents", make_document(doc_id="payroll"), replace=False)
    with stdio_program(tmp_path, None, "--document", "payroll") as program:
        program.call(1, "read_doc_metadata")
        program.call(2, "read_doc_metadata", doc_id="doc_1")
        assert '"payroll"' in program.answer(1)["result"]["content"][0]["text"]
        assert "ACCESS_DENIED" in json.dumps(program.answer(2))
        assert program.close_stdin() == 0
