"""The program: one command, signals, logs, disconnected callers."""

import asyncio
import json
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.e2e.hanging_retrieval import HangingRetrieval
from tests.support.bounds import BOUND_S
from tests.support.held_port import free_port
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import UNLIMITED, Program, started, wait_until
from tests.support.program_launch import run
from tests.support.service import BATCH, EXECUTE, request_of

pytestmark = [pytest.mark.e2e]

EVERYWHERE = "0.0.0.0"  # noqa: S104 - that is what a test is about

WINDOW = request_of("read_chunk_window", {"doc_id": "doc_1", "anchor_chunk_id": "p1-c1"})
SECTION = request_of("read_doc_section", {"doc_id": "doc_1", "section_id": "sec_intro"})


@pytest.fixture
def retrieval() -> Iterator[HangingRetrieval]:
    with HangingRetrieval() as hanging:
        yield hanging


def environment(retrieval: HangingRetrieval, **more: str) -> dict[str, str]:
    return {
        "MCP_PROXY_RETRIEVAL_WINDOW_URL": retrieval.url,
        "MCP_PROXY_RETRIEVAL_TIMEOUT": "30",
        **UNLIMITED,
        **more,
    }


def test_it_answers_calls_and_logs_one_json_line_for_each(tmp_path: Path) -> None:
    with started(tmp_path, fresh=True) as program:
        answer = program.http.post(EXECUTE, json=SECTION | {"trace_id": "t-1"}).json()
        program.stop()
        lines = [line for line in program.log_lines() if line["event"] == "tool.call"]
    assert (answer["status"], [line["trace_id"] for line in lines]) == ("ok", ["t-1"])


@pytest.mark.parametrize(
    ("sig", "exit_code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 128 + signal.SIGINT)]
)
def test_a_signal_stops_it(tmp_path: Path, sig: int, exit_code: int) -> None:
    with started(tmp_path, fresh=True) as program:
        assert program.stop(sig) == exit_code


def test_stdio_servers_that_ignore_sigterm_are_all_signalled_immediately_and_then_killed(
    tmp_path: Path,
) -> None:
    """All receive SIGTERM before the first is killed; a killed one could not note it."""
    signals = [tmp_path / f"signals-{number}" for number in range(5)]
    script = 'trap "echo term >> $0" TERM; echo up > $0; while :; do sleep 0.1; done'
    servers = {
        f"hangs-{number}": {"command": "sh", "args": ["-c", script, str(path)]}
        for number, path in enumerate(signals)
    } | {"stubborn": raw_entry(stubborn=True)}
    (tmp_path / "config").mkdir()
    (tmp_path / "config/mcp.json").write_text(json.dumps({"mcpServers": servers}))
    with started(tmp_path) as program:
        wait_until(
            lambda: (
                all(path.exists() for path in signals)
                and program.log.read_text().count('"server.spawned"') == 6
            )
        )
        exit_code = program.stop()
        spawned = [it["payload"] for it in program.log_lines() if it["event"] == "server.spawned"]
    assert (exit_code, len(spawned)) == (-signal.SIGTERM, 6)
    assert [path.read_text().split() for path in signals] == [["up", "term"]] * 5
    assert [it for it in spawned if Path(f"/proc/{it['pid']}").exists()] == []


def test_a_call_in_flight_finishes_after_sigterm(
    tmp_path: Path, retrieval: HangingRetrieval
) -> None:
    with started(tmp_path, environment(retrieval)) as program, ThreadPoolExecutor() as pool:
        call = pool.submit(program.http.post, EXECUTE, json=WINDOW)
        retrieval.wait_for_requests(1)
        program.process.send_signal(signal.SIGTERM)
        wait_until_stopping(program)
        retrieval.answer_all()
        assert call.result(BOUND_S).json()["status"] == "ok"


def test_a_new_call_after_sigterm_is_refused(tmp_path: Path, retrieval: HangingRetrieval) -> None:
    with started(tmp_path, environment(retrieval)) as program, ThreadPoolExecutor() as pool:
        call = pool.submit(program.http.post, EXECUTE, json=WINDOW)
        retrieval.wait_for_requests(1)
        program.process.send_signal(signal.SIGTERM)
        wait_until_stopping(program)
        answer = program.http.post(EXECUTE, json=SECTION)
        retrieval.answer_all()
        call.result(BOUND_S)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "SHUTTING_DOWN")


def test_a_call_longer_than_the_grace_period_gets_an_error(
    tmp_path: Path, retrieval: HangingRetrieval
) -> None:
    settings = environment(retrieval, MCP_PROXY_SHUTDOWN_GRACE_S="0.5")
    with started(tmp_path, settings) as program, ThreadPoolExecutor() as pool:
        call = pool.submit(program.http.post, EXECUTE, json=WINDOW)
        retrieval.wait_for_requests(1)
        exit_code = program.stop()
        answer = call.result(BOUND_S)
    assert (answer.status_code, answer.json()["error"]["code"], exit_code == -signal.SIGTERM) == (
        503,
        "SHUTTING_DOWN",
        True,
    )


def test_a_kept_alive_connection_gets_a_last_answer_before_it_closes(
    tmp_path: Path,
) -> None:
    with started(tmp_path, UNLIMITED | {"MCP_PROXY_SHUTDOWN_DRAIN_S": str(BOUND_S)}) as program:
        program.http.post(EXECUTE, json=SECTION)
        program.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not listens(program.port))
        answer = program.http.post(EXECUTE, json=SECTION)
        exit_code = program.process.wait(BOUND_S)
    assert (answer.json()["error"]["code"], answer.headers["connection"], exit_code) == (
        "SHUTTING_DOWN",
        "close",
        -signal.SIGTERM,
    )


def test_the_answer_to_a_call_in_flight_closes_its_connection(
    tmp_path: Path, retrieval: HangingRetrieval
) -> None:
    with started(tmp_path, environment(retrieval)) as program, ThreadPoolExecutor() as pool:
        call = pool.submit(program.http.post, EXECUTE, json=WINDOW)
        retrieval.wait_for_requests(1)
        program.process.send_signal(signal.SIGTERM)
        wait_until_stopping(program)
        retrieval.answer_all()
        assert call.result(BOUND_S).headers["connection"] == "close"


@pytest.mark.parametrize("route", [EXECUTE, BATCH])
def test_a_caller_that_disconnects_cancels_its_calls(
    tmp_path: Path, retrieval: HangingRetrieval, route: str
) -> None:
    body: dict[str, object] = WINDOW
    if route == BATCH:
        body = {"calls": [WINDOW, WINDOW, WINDOW], "user": WINDOW["user"]}
    with started(tmp_path, environment(retrieval)) as program:
        with socket.create_connection(("127.0.0.1", program.port)) as caller:
            caller.sendall(raw_request(route, body))
            retrieval.wait_for_requests(1 if route == EXECUTE else 3)
        retrieval.wait_for_hang_ups(1 if route == EXECUTE else 3)
        wait_until(lambda: "mcp_proxy_calls_in_flight 0.0" in program.http.get("/metrics").text)


@pytest.mark.requirement("T-03")
@pytest.mark.parametrize("drips", [False, True], ids=["hangs", "drips"])
def test_documents_are_answered_immediately_while_retrieval_hangs(
    tmp_path: Path, drips: bool
) -> None:
    """200 hanging calls end with RETRIEVAL_UNAVAILABLE without delaying others."""
    with HangingRetrieval(drips=drips) as retrieval:
        settings = environment(retrieval, MCP_PROXY_RETRIEVAL_TIMEOUT="8")
        with started(tmp_path, settings) as program:
            codes, sections = asyncio.run(hang_and_read(program.port, retrieval))
    assert (codes, sections) == (["RETRIEVAL_UNAVAILABLE"] * 200, ["ok"] * 20)


async def hang_and_read(port: int, retrieval: HangingRetrieval) -> tuple[list[str], list[str]]:
    limits = httpx.Limits(max_connections=None)
    base = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=base, limits=limits, timeout=BOUND_S) as http:
        async with asyncio.TaskGroup() as group:
            hanging = [group.create_task(http.post(EXECUTE, json=WINDOW)) for _ in range(200)]
            await asyncio.to_thread(retrieval.wait_for_requests, 50)
            sections = [
                (await http.post(EXECUTE, json=SECTION)).json()["status"] for _ in range(20)
            ]
            assert not all(call.done() for call in hanging)
        return [call.result().json()["error"]["code"] for call in hanging], sections


def test_an_invalid_setting_stops_the_start_with_one_line(tmp_path: Path) -> None:
    code, _, stderr = run(tmp_path, "serve", MCP_PROXY_MAX_TEXT_BYTES="many")
    assert (code, stderr.count("\n"), "MCP_PROXY_MAX_TEXT_BYTES" in stderr) == (2, 1, True)


def test_a_used_port_stops_the_start_with_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, stderr = run(tmp_path, "serve", "--port", str(taken.getsockname()[1]))
    assert (code, stderr.count("\n"), "in use" in stderr) == (2, 1, True)


def test_options_before_the_command_are_refused(tmp_path: Path) -> None:
    code, _, stderr = run(tmp_path, "--port", "9", "serve")
    assert (code, stderr.count("\n"), "--port" in stderr) == (2, 1, True)


def test_endless_headers_close_the_connection(tmp_path: Path) -> None:
    with (
        started(tmp_path) as program,
        socket.create_connection(("127.0.0.1", program.port), timeout=BOUND_S) as caller,
    ):
        caller.sendall(b"GET /health HTTP/1.1\r\nX: ")
        assert hangs_up(caller, b"a" * 65536)


def test_a_websocket_upgrade_is_an_unknown_route(tmp_path: Path) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    with started(tmp_path) as program:
        response = program.http.get("/x?q=secret", headers=headers)
        program.stop()
        logged = "".join(json.dumps(line) for line in program.log_lines())
    assert (response.status_code, response.json()["error"]["code"], "secret" in logged) == (
        404,
        "NOT_FOUND",
        False,
    )


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({"MCP_PROXY_HOST": EVERYWHERE}, True),
        ({"MCP_PROXY_HOST": EVERYWHERE, "MCP_PROXY_ALLOWED_HOSTS": "127.0.0.1"}, False),
        ({"MCP_PROXY_HOST": "127.0.0.1"}, False),
    ],
)
def test_a_start_beyond_loopback_without_host_names_warns(
    tmp_path: Path, settings: dict[str, str], warned: bool
) -> None:
    with started(tmp_path, settings) as program:
        program.stop()
        lines = [line for line in program.log_lines() if line["event"] == "service.any_host"]
    assert [line["level"] for line in lines] == ["warn"] * warned


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("MCP_PROXY_ADMIN_TOKEN", "a" * 32),
        ("MCP_PROXY_STATE_KEY", "for-local-trial-only-set-your-own-key"),
        ("MCP_PROXY_RATE_LIMIT_STORAGE_URL", "redis://:for-local-trial-only@127.0.0.1:9/0"),
    ],
)
def test_a_start_for_any_host_name_beyond_loopback_is_refused_with_a_published_secret(
    tmp_path: Path, name: str, secret: str
) -> None:
    serve = ("serve", "--port", "0")
    by_setting = run(tmp_path, *serve, **{name: secret, "MCP_PROXY_HOST": EVERYWHERE})  # type: ignore[arg-type]
    by_option = run(tmp_path, *serve, "--host", EVERYWHERE, **{name: secret})  # type: ignore[arg-type]
    for code, _, stderr in (by_setting, by_option):
        assert code == 2
        assert f"mcp-tools-proxy: {name}: " in stderr
        assert "MCP_PROXY_ALLOWED_HOSTS is unset" in stderr


def test_commands_accept_the_host_of_the_image_and_trial_secrets(tmp_path: Path) -> None:
    code, _, _ = run(
        tmp_path, "documents", "list", MCP_PROXY_HOST=EVERYWHERE, MCP_PROXY_ADMIN_TOKEN="a" * 32
    )
    assert code == 0


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({"MCP_PROXY_HOST": EVERYWHERE}, True),
        ({"MCP_PROXY_HOST": EVERYWHERE, "MCP_PROXY_ALLOWED_HOSTS": "127.0.0.1"}, True),
        (
            {
                "MCP_PROXY_HOST": EVERYWHERE,
                "MCP_PROXY_AUTH_MODE": "token",
                "MCP_PROXY_TOKENS_FILE": "tokens.jsonl",
            },
            False,
        ),
        ({"MCP_PROXY_HOST": "127.0.0.1"}, False),
    ],
)
def test_a_start_beyond_loopback_without_authentication_warns(
    tmp_path: Path, settings: dict[str, str], warned: bool
) -> None:
    with started(tmp_path, settings) as program:
        program.stop()
        lines = program.log_lines()
    levels = [it["level"] for it in lines if it["event"] == "service.no_authentication"]
    assert levels == ["warn"] * warned


def test_an_unreachable_limit_store_does_not_stop_the_start(tmp_path: Path) -> None:
    settings = {"MCP_PROXY_RATE_LIMIT_STORAGE_URL": f"redis://127.0.0.1:{free_port()}"}
    with started(tmp_path, settings) as program:
        assert program.http.post(EXECUTE, json=SECTION).json()["status"] == "ok"


def test_settings_of_the_previous_system_start_with_a_warning_each(tmp_path: Path) -> None:
    settings = {
        "MCP_PROXY_LOG_LEVEL": "info",
        "MCP_PROXY_MAX_PAGES_PER_CALL": "0",
        "MCP_PROXY_MAX_CHUNK_WINDOW": "0",
    }
    with started(tmp_path, UNLIMITED | settings) as program:
        body = request_of(
            "read_doc_pages",
            {"doc_id": "doc_1", "page_start": 1, "page_end": 1},
            tenant_id="tenant_1",
        )
        assert program.http.post(EXECUTE, json=body).json()["status"] == "ok"
        wait_until(lambda: len(settings_warned(program)) == 2)
    assert settings_warned(program) == [*settings][1:]


def settings_warned(program: Program) -> list[str]:
    lines = program.log_lines()
    return [it["payload"]["variable"] for it in lines if it["event"] == "settings.warning"]


def test_with_the_level_critical_the_service_starts_and_warns(tmp_path: Path) -> None:
    with started(tmp_path, {"MCP_PROXY_LOG_LEVEL": "critical"}) as program:
        assert program.http.get("/health").status_code == 200
        wait_until(lambda: settings_warned(program) == ["MCP_PROXY_LOG_LEVEL"])


def test_a_new_document_is_read_without_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "documents" / "t"
    document = {"doc_id": "new", "tenant_id": "t", "title": "New", "pages": ["text"]}
    with started(tmp_path, UNLIMITED) as program:
        folder.mkdir(parents=True)
        (folder / "new.json").write_text(json.dumps(document))
        body = request_of("read_doc_metadata", {"doc_id": "new"}, tenant_id="t")
        wait_until(lambda: program.http.post(EXECUTE, json=body).json()["status"] == "ok")


def raw_request(path: str, body: object) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def hangs_up(caller: socket.socket, data: bytes) -> bool:
    """Send until the other side stops reading, at most 10 MB."""
    try:
        for _ in range(160):
            caller.sendall(data)
    except OSError:
        return True
    return False


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until_stopping(program: Program) -> None:
    wait_until(lambda: program.http.get("/health/ready").json()["status"] == "stopping")
