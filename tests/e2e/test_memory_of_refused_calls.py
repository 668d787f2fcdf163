"""The program stores nothing of refused calls: arguments and results are freed."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import BOTH, ENVELOPE, MODERN, TENANT
from tests.support.mcp_servers.server_programs import ROOT, raw_entry
from tests.support.program import UNLIMITED, Program, started, wait_until
from tests.support.service import EXECUTE, SERVERS, request_of

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MEGABYTE = 1_000_000
TOOLS = ("sleep", "big_image", "many_keys", "error", "half")
LIMIT_BYTES = 50_000_000
TOO_LARGE = request_of("s1:big_image", {"bytes": MEGABYTE})
INVALID = request_of("s1:sleep", {"text": "x" * MEGABYTE})
"""``seconds`` is missing."""


class Refused(NamedTuple):
    """A kind of refused call, its expected answer, and the number of calls."""

    send: Callable[[Program, int], str]
    answer: str
    calls: int = 100


def rss_bytes(program: Program) -> int:
    pages = Path(f"/proc/{program.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def over_http(body: Json) -> Callable[[Program, int], str]:
    return lambda program, _: program.http.post(EXECUTE, json=body).text


def with_key(body: Json) -> Callable[[Program, int], str]:
    return lambda program, number: (
        program.http.post(EXECUTE, json={**body, "idempotency_key": f"key-{number}"}).text
    )


def over_mcp(body: Json) -> Callable[[Program, int], str]:
    params = {"name": body["tool_name"], "arguments": body["arguments"], "_meta": ENVELOPE}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        **BOTH,
        **TENANT,
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": body["tool_name"],
    }
    return lambda program, _: program.http.post("/mcp", json=message, headers=headers).text


def with_roles(count: int, chars: int) -> Callable[[Program, int], str]:
    def send(program: Program, number: int) -> str:
        roles = ",".join(f"{number}-{role}".ljust(chars, "r") for role in range(count))
        headers = {"X-User-Roles": roles}
        return program.http.post(EXECUTE, json=request_of("no_such"), headers=headers).text

    return send


REFUSED = {
    "many-roles": Refused(with_roles(5_000, 11), "X-User-Roles", 200),
    "long-roles": Refused(with_roles(900, 60), "TOOL_NOT_FOUND", 400),
    "arguments": Refused(over_http(INVALID), "INVALID_ARGUMENTS"),
    "result": Refused(over_http(TOO_LARGE), "RESULT_TOO_LARGE"),
    "result-600000-keys": Refused(
        over_http(request_of("s1:many_keys", {"count": 600_000})), "RESULT_TOO_LARGE", 3
    ),
    "result-100000-keys": Refused(
        over_http(request_of("s1:many_keys", {"count": 100_000})), "RESULT_TOO_LARGE", 10
    ),
    "arguments-mcp": Refused(over_mcp(INVALID), "INVALID_ARGUMENTS"),
    "result-mcp": Refused(over_mcp(TOO_LARGE), "RESULT_TOO_LARGE"),
    "arguments-key": Refused(with_key(INVALID), "INVALID_ARGUMENTS"),
    "result-key": Refused(with_key(TOO_LARGE), "RESULT_TOO_LARGE"),
    "result-stdio": Refused(
        over_http(request_of("s2:big_image", {"bytes": MEGABYTE})), "RESULT_TOO_LARGE"
    ),
    "keys-stdio": Refused(
        over_http(request_of("s2:many_keys", {"count": 600_000})), "RESULT_TOO_LARGE", 3
    ),
    "tool-error": Refused(
        over_http(request_of("s1:error", {"code": -32050, "text": "x" * MEGABYTE})),
        "TOOL_FAILED",
    ),
    "unavailable": Refused(
        over_http(request_of("s1:half", {"text": "x" * MEGABYTE})), "SERVER_UNAVAILABLE", 10
    ),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Start the program with the servers ``s1``, over HTTP, and ``s2``, over stdio."""
    folder = tmp_path_factory.mktemp("refused")
    command = [sys.executable, "-m", "tests.support.mcp_servers.raw", "--transport", "http"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - ours
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        servers = {"s1": {"transport": "streamable-http", "url": url}, "s2": raw_entry()}
        preset = make_preset(tools=[(name, tool) for name in servers for tool in TOOLS])
        Config(servers=servers, presets=[preset]).write(folder / "config")
        settings = {**UNLIMITED, "MCP_PROXY_MAX_RESULT_BYTES": str(MEGABYTE // 2)}
        try:
            with started(folder, settings) as running:
                wait_until(lambda: all_ready(running))
                yield running
        finally:
            server.kill()


def all_ready(program: Program) -> bool:
    return all(it["state"] == "ready" for it in program.http.get(SERVERS).json()["servers"])


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_calls_leave_no_memory_behind(program: Program, kind: str) -> None:
    refused = REFUSED[kind]
    for number in range(2):
        assert refused.answer in refused.send(program, -number - 1)
    before = rss_bytes(program)
    for number in range(refused.calls):
        refused.send(program, number)
    assert rss_bytes(program) - before < LIMIT_BYTES
