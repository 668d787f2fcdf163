import asyncio
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tools_proxy.downstream.connection import ConnectAttempt, ConnectionFailure, ServerOutput
from mcp_tools_proxy.downstream.mcp_client.stdio_process import (
    StartPlaces,
    cpu_of_tree,
    open_process,
)
from tests.downstream.connections import config_of, dialled
from tests.downstream.stub_server import Json
from tests.support.bounds import BOUND_S, until
from tests.support.configuration import Config
from tests.support.leak_checks import runs
from tests.support.mcp_servers.server_programs import ROOT, raw_entry
from tests.support.service import SERVERS, running

INSTALLER = """
import os, sys, time
seconds, journal = float(sys.argv[1]), sys.argv[2]
def note(word):
    with open(journal, "a") as file:
        file.write(f"{word}\\n")
note("begins")
ends = time.monotonic() + seconds
while time.monotonic() < ends:
    busy_until = time.process_time() + 0.15
    while time.process_time() < busy_until:
        pass
    time.sleep(0.3)
note("ends")
os.execv(sys.executable, [sys.executable, "-m", "tests.support.mcp_servers.raw"])
"""
INSTALL_S = 7
"""Longer than the time to connect, which counts from a server's first byte."""
PLACES = 2 * len(os.sched_getaffinity(0))


def installer(journal: Path, seconds: float = INSTALL_S) -> Json:
    args = ["-c", INSTALLER, str(seconds), str(journal)]
    return {"command": sys.executable, "args": args, "env": {"PYTHONPATH": str(ROOT)}}


def most_at_once(lines: list[str]) -> int:
    now = most = 0
    for line in lines:
        now += 1 if line == "begins" else -1
        most = max(most, now)
    return most


async def test_slow_installers_start_a_few_at_a_time_and_each_only_once(tmp_path: Path) -> None:
    journal, count = tmp_path / "journal", PLACES + 2
    limits = {"connectTimeoutSeconds": 5, "startTimeoutSeconds": 600}
    servers = {f"s{n}": installer(journal) | limits for n in range(count)}
    async with running(config=Config(servers=servers)) as service:
        assert await service.gateway.pool.wait_first_attempts(10 * BOUND_S)
        states = [it["state"] for it in (await service.get(SERVERS))["servers"]]
    lines = journal.read_text().splitlines()
    assert states == ["ready"] * count
    assert (lines.count("begins"), lines.count("ends")) == (count, count)
    assert most_at_once(lines) <= PLACES


async def test_silent_commands_delay_nothing() -> None:
    silent = {f"a{n}": {"command": "sleep", "args": ["600"]} for n in range(PLACES)}
    config = Config(servers={**silent, "z": raw_entry()})
    async with running(config=config, discovered=False) as service:
        pool = service.gateway.pool
        await until(
            lambda: "z" in pool.snapshots and "z" not in pool.pending,
            "the server after the silent ones is ready",
        )
        assert set(pool.pending) == set(silent)


async def test_a_process_that_sends_nothing_gets_the_startup_timeout() -> None:
    entry = {"command": "sleep", "args": ["600"], "startTimeoutSeconds": 0.5}
    async with running(config=Config(servers={"s": entry})) as service:
        (status,) = (await service.get(SERVERS))["servers"]
    assert (
        'sent nothing within 0.5 s; if it needs longer, set "startTimeoutSeconds"'
        in (status["last_error"])
    )


async def test_the_time_to_connect_counts_from_the_first_byte() -> None:
    script = "echo starting; exec sleep 600"
    entry = {"command": "sh", "args": ["-c", script], "connectTimeoutSeconds": 0.5}
    async with running(config=Config(servers={"s": entry})) as service:
        (status,) = (await service.get(SERVERS))["servers"]
    assert (
        'did not answer within 0.5 s; if it needs longer, set "connectTimeoutSeconds"'
        in (status["last_error"])
    )


async def test_a_child_of_a_shell_may_clean_up_after_sigterm(tmp_path: Path) -> None:
    done = tmp_path / "done"
    child = (
        "import os, signal, time\n"
        f"def end(*_): time.sleep(0.5); open({str(done)!r}, 'w').write('clean'); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"open({str(done)!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    script = f"{shlex.join([sys.executable, '-c', child])} & wait"

    async def own() -> None:
        async with dialled({"command": "sh", "args": ["-c", script]}):
            raise AssertionError("it never answers")

    owner = asyncio.ensure_future(own())
    await until(lambda: done.exists() and done.read_text(), "the child runs")
    pid = int(done.read_text())
    owner.cancel()
    await asyncio.wait([owner])
    assert (done.read_text(), runs(pid)) == ("clean", False)


async def test_the_cpu_of_children_counts(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 1: pass\ntime.sleep(600)"
    script = f"{shlex.join([sys.executable, '-c', burn])} & wait"
    process = await asyncio.create_subprocess_exec("sh", "-c", script, start_new_session=True)
    try:
        await until(lambda: cpu_of_tree(process.pid) >= 0.5, "the child's CPU is seen")
    finally:
        os.killpg(process.pid, 9)
        await process.wait()
    assert cpu_of_tree(process.pid) == 0.0


async def test_a_calls_own_session_waits_for_no_slot() -> None:
    places = StartPlaces(1)
    await places.acquire()
    async with asyncio.timeout(BOUND_S) as limit:
        attempt = ConnectAttempt(limit, config_of(raw_entry()), waits_for_place=False)
        async with open_process(config_of(raw_entry()), ServerOutput(), places, attempt) as server:
            assert server.exit_code is None


def used(*seconds: float) -> Callable[[int], float]:
    left = list(seconds)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.parametrize(
    ("seconds", "takes_s"),
    [((0.0,), 15), ((0.0, 2.0), 18), (tuple(map(float, range(8))), 36)],
    ids=["silent", "busy-first", "busy-for-long"],
)
async def test_a_start_without_cpu_use_is_idle(seconds: tuple[float, ...], takes_s: int) -> None:
    waits: list[float] = []

    async def count(delay: float) -> None:
        waits.append(delay)

    places = StartPlaces(1, used(*seconds), sleep=count)
    await places.wait_idle(0)
    assert round(sum(waits)) == takes_s


async def test_a_slot_is_released_once() -> None:
    places = StartPlaces(1)
    release = await places.acquire()
    release()
    release()
    await places.acquire()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await places.acquire()


async def test_a_failed_start_releases_its_slot() -> None:
    with pytest.raises(ConnectionFailure):
        async with dialled({"command": "no-such-command"}):
            pass


COMPLAINTS = {
    "rich": "[11/29/26] WARNING  Failed to validate request: 31\n      PingRequest.method\n"
    "        Input should be 'ping'\n",
    "plain": "Failed to validate request: 31 validation errors for ClientRequest\n"
    "PingRequest.method\n  Input should be 'ping' [type=literal_error]\n"
    "    For further information visit https://errors.pydantic.dev/2.14/v/missing\n",
}


@pytest.mark.parametrize("complaint", COMPLAINTS.values(), ids=COMPLAINTS)
async def test_the_error_quotes_no_message_about_the_probe(complaint: str) -> None:
    written = f"reading the key\n{complaint}the key has expired\n"
    script = f"printf %s {shlex.quote(written)} >&2; exit 3"
    entry = {"command": "sh", "args": ["-c", script]}
    async with running(config=Config(servers={"s": entry})) as service:
        (status,) = (await service.get(SERVERS))["servers"]
    lines = status["last_error"].partition("; stderr: ")[2].split(" | ")
    assert lines == ["reading the key", "the key has expired"] * 2  # with and without the probe


UNTRUSTED = [
    "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
    "npm error code SELF_SIGNED_CERT_IN_CHAIN",
    "code: 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY'",
    "Error: unable to verify the first certificate",
    "error: invalid peer certificate: UnknownIssuer",
    "tls: failed to verify certificate: x509: certificate signed by unknown authority",
    "curl: (60) SSL certificate problem: unable to get local issuer certificate",
    "PKIX path building failed: unable to find valid certification path to requested target",
]


async def last_error_of(written: str) -> str:
    script = f"printf %s {shlex.quote(written)} >&2; exit 1"
    entry = {"command": "sh", "args": ["-c", script]}
    async with running(config=Config(servers={"s": entry})) as service:
        (status,) = (await service.get(SERVERS))["servers"]
    return str(status["last_error"])


@pytest.mark.parametrize("line", UNTRUSTED)
async def test_an_untrusted_certificate_is_explained(line: str) -> None:
    error = await last_error_of(f"{line}\n" + "at frame\n" * 20)
    assert "MCP_PROXY_STDIO_ENV" in error.partition("; stderr: ")[0]
    assert error.endswith("at frame | at frame")


@pytest.mark.parametrize(
    "line", ["the certificate has expired", "an unknown tool", "signed by nobody"]
)
async def test_the_certificate_hint_is_limited_to_its_error(line: str) -> None:
    error = await last_error_of(f"{line}\n")
    assert "MCP_PROXY_STDIO_ENV" not in error
    assert error.endswith(line)


GARBLED = "what it writes to stdout is not MCP"
INDENTED = """echo '{'; echo '  "jsonrpc": "2.0"'; echo '}'; exec sleep 60"""


async def test_a_program_that_writes_no_messages_to_stdout_gets_a_hint() -> None:
    entry = {"command": "sh", "args": ["-c", INDENTED], "connectTimeoutSeconds": 0.5}
    async with running(config=Config(servers={"s": entry})) as service:
        (status,) = (await service.get(SERVERS))["servers"]
    assert GARBLED in status["last_error"]


async def test_a_program_that_also_writes_messages_gets_no_hint() -> None:
    message = '{"jsonrpc":"2.0","method":"notifications/message"}'
    script = f"echo starting; echo '{message}'; exec sleep 60"
    entry = {"command": "sh", "args": ["-c", script], "connectTimeoutSeconds": 0.5}
    async with running(config=Config(servers={"s": entry})) as service:
        (status,) = (await service.get(SERVERS))["servers"]
    assert "did not answer" in status["last_error"]
    assert GARBLED not in status["last_error"]
