"""The audit commands on a folder, and the audits of a service with several worker processes."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.telemetry.audit.audit_file import AuditFile
from mcp_tools_proxy.telemetry.log_lines import line_of
from tests.support.program import Program, started, wait_until
from tests.support.program_launch import launch, run
from tests.support.redis_server import running_redis
from tests.support.service import EXECUTE, request_of
from tests.support.tokens import bearer

pytestmark = pytest.mark.e2e

KEY = "k" * 64
ADMIN = "correct-horse-battery"


def put(path: Path, numbers: range, *, max_bytes: int = 10**9) -> None:
    """Write calls whose number is their minute, in several starts of the writer."""
    for start in numbers[::4]:
        file = AuditFile(
            path, key=KEY.encode(), max_bytes=max_bytes, keep_files=100, required=False
        )
        file.open()
        for n in [it for it in numbers if start <= it < start + 4 * numbers.step]:
            at = f"2126-11-29T10:{n:02}:00.000000Z"
            file.put(line_of(at, "info", "tool.call", {"n": n, "tenant_id": "acme"}, f"t-{n}"))
        file.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two signed audits, one in several files, with other files beside them."""
    folder = tmp_path / "audit"
    folder.mkdir()
    put(folder / "1.jsonl", range(0, 20, 2), max_bytes=500)
    put(folder / "2.jsonl", range(1, 20, 2))
    (folder / "notes.txt").write_text("not an audit\n")
    (tmp_path / "key").write_text(KEY)
    return folder


def audit(folder: Path, *arguments: str, path: str = "file:audit/{worker}.jsonl") -> Any:
    settings = {"MCP_PROXY_AUDIT": path, "MCP_PROXY_AUDIT_KEY_FILE": "key"}
    return run(folder.parent, "audit", *arguments, fresh=False, **settings)


def calls(printed: str) -> list[int]:
    records = [json.loads(line) for line in printed.splitlines()]
    return [it["payload"]["n"] for it in records if it["event"] == "tool.call"]


def head_of(path: Path) -> str:
    record = json.loads(path.read_bytes().splitlines()[-1])
    return f"{record['seq']}:{record['mac']}"


@pytest.mark.parametrize("arguments", [["audit"], []])
def test_find_and_tail_merge_the_audits_of_a_folder_by_time(
    folder: Path, arguments: list[str]
) -> None:
    code, printed, _ = audit(folder, "find", *arguments, "--tenant", "acme")
    assert (code, calls(printed)) == (0, [*range(20)])
    _, newest, _ = audit(folder, "find", *arguments, "--event", "tool.call", "--limit", "3")
    assert calls(newest) == [17, 18, 19]
    _, tail, _ = audit(folder, "tail", *arguments, "-n", "4")
    assert calls(tail) == [16, 17, 18, 19]
    _, one, _ = audit(folder, "find", "audit/2.jsonl", "--event", "tool.call")
    assert calls(one) == [*range(1, 20, 2)]


def test_verify_reports_each_audit_of_a_folder(folder: Path) -> None:
    code, printed, _ = audit(folder, "verify", "audit")
    assert (code, printed.count("are intact"), "notes.txt" in printed) == (0, 2, False)
    path = folder / "2.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"n":3,', b'"n":4,'))
    code, printed, _ = audit(folder, "verify")
    assert (code, printed.count("are intact"), printed.count("NOT intact")) == (1, 1, 1)
    assert "does not match its signature" in printed


def test_verify_finds_a_head_in_one_of_the_audits(folder: Path) -> None:
    heads = [head_of(folder / name) for name in ("1.jsonl", "2.jsonl")]
    options = [it for head in heads for it in ("--head", head)]
    code, printed, _ = audit(folder, "verify", "audit", *options)
    assert (code, "problem" in printed) == (0, False)
    lines = (folder / "2.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "2.jsonl").write_bytes(b"".join(lines[:-1]))
    code, printed, _ = audit(folder, "verify", "audit", *options)
    assert code == 1
    problems = [line for line in printed.splitlines() if line.startswith("problem:")]
    assert [heads[1] in it for it in problems] == [True]


def test_a_folder_without_audits_is_an_error(folder: Path) -> None:
    (folder / "empty").mkdir()
    for command in ("find", "tail", "verify"):
        code, _, complaint = audit(folder, command, "audit/empty")
        assert (code, complaint.strip()) == (
            2,
            "mcp-tools-proxy: audit/empty: no audits in this folder",
        )
        code, _, complaint = audit(folder, command, path="file:none/{host}-{worker}")
        assert (code, "none/{host}-{worker}: audit file not found" in complaint) == (2, True)


def test_tail_follows_all_audits_of_a_folder(folder: Path) -> None:
    out = folder.parent / "followed"
    with out.open("wb") as output:
        streams = (subprocess.DEVNULL, output.fileno(), None)
        arguments = ["audit", "tail", "audit", "-n", "1", "--follow"]
        process = launch(arguments, folder.parent, {}, streams=streams, fresh=False)
    try:
        wait_until(lambda: calls(out.read_text()) == [19])
        put(folder / "1.jsonl", range(20, 21), max_bytes=500)
        wait_until(lambda: calls(out.read_text()) == [19, 20])
        put(folder / "3.jsonl", range(21, 22))
        wait_until(lambda: calls(out.read_text()) == [19, 20, 21])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def call(program: Program, trace_id: str) -> None:
    body = {**request_of("read_doc_metadata", {"doc_id": "doc_1"}), "trace_id": trace_id}
    # each request can be answered by another worker
    headers = {**bearer(ADMIN), "Connection": "close"}
    assert program.http.post(EXECUTE, json=body, headers=headers).status_code == 200


def test_each_worker_has_an_audit_and_any_answers_for_all(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    with running_redis(tmp_path) as redis:
        environment = {
            "MCP_PROXY_WORKERS": "2",
            "MCP_PROXY_RATE_LIMIT_STORAGE_URL": redis.url,
            "MCP_PROXY_AUDIT": "file:audit/{worker}.jsonl",
            "MCP_PROXY_AUDIT_KEY_FILE": "key",
            "MCP_PROXY_ADMIN_TOKEN": ADMIN,
        }
        with started(tmp_path, environment) as program:
            names = [f"t-{n}" for n in range(40)]
            wait_until(lambda: len([*(tmp_path / "audit").glob("*.jsonl")]) == 2)
            for name in names:
                call(program, name)

            def found() -> list[str]:
                query: dict[str, Any] = {"event": "tool.call", "limit": 7}
                traces: list[str] = []
                while True:
                    headers = {**bearer(ADMIN), "Connection": "close"}
                    page = program.http.get("/internal/mcp/audit", params=query, headers=headers)
                    traces += [it["trace_id"] for it in page.json()["records"]]
                    query["cursor"] = page.json().get("next_cursor")
                    if query["cursor"] is None:
                        return traces

            wait_until(lambda: len(found()) == 40)
            assert found() == names[::-1]
            program.stop()
            heads = [
                (line["payload"]["file"], f"{line['payload']['seq']}:{line['payload']['mac']}")
                for line in program.log_lines()
                if line["event"] == "audit.head"
            ]
    assert {name for name, _ in heads} == {
        f"audit/{worker}.jsonl{suffix}" for worker in (1, 2) for suffix in ("", ".unauthenticated")
    }
    options = [it for _, head in heads for it in ("--head", head)]
    code, printed, _ = audit(tmp_path / "audit", "verify", "audit", *options)
    assert (code, printed.count("are intact")) == (0, 4), printed
    code, printed, _ = audit(tmp_path / "audit", "find", "--event", "tool.call")
    assert [json.loads(line)["trace_id"] for line in printed.splitlines()] == names
