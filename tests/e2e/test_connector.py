"""The program dials out; SIGTERM while the backend uses it ends everything in order."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import UNLIMITED, Program, started, wait_until
from tests.support.remote_backend.backend import Backend, running_backend
from tests.support.remote_backend.handshakes import TOKEN
from tests.support.remote_backend.session import ENVELOPE
from tests.support.service import REMOTE, SERVERS

pytestmark = [pytest.mark.e2e]

GRACE_S = BOUND_S
LISTEN_ID = "listen"
GOING_AWAY = 1001


class Ended(NamedTuple):
    call: Json
    listened: list[Json]
    close_code: int | None
    handshakes: int
    status: Json
    exit_code: int
    seconds: float
    log: list[dict[str, Any]]


async def stop_under(program: Program, backend: Backend, folder: Path) -> Ended:
    """Listen in one session, start a call in another, and send SIGTERM."""
    link = await backend.connected()
    listening, calling = backend.session(), backend.session()
    params = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
    request = {"jsonrpc": "2.0", "id": LISTEN_ID, "method": "subscriptions/listen"}
    await listening.send(request | {"params": params})
    await listening.receive()
    status = (await asyncio.to_thread(program.http.get, REMOTE)).json()
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(calling.call("s1:sleep", {"seconds": 1.5}))
        await asyncio.to_thread(wait_until, lambda: "sleep" in journal_of(folder))
        begin = asyncio.get_running_loop().time()
        program.process.send_signal(signal.SIGTERM)
    await backend.disconnected()
    exit_code = await asyncio.to_thread(program.process.wait, BOUND_S)
    return Ended(
        call=call.result(),
        listened=list(listening.messages),
        close_code=link.close_code,
        handshakes=len(backend.handshakes),
        status=status,
        exit_code=exit_code,
        seconds=asyncio.get_running_loop().time() - begin,
        log=program.log_lines(),
    )


@asynccontextmanager
async def serving_backend(
    folder: Path, tool: str, *, grace_s: float
) -> AsyncIterator[tuple[Program, Backend]]:
    """Run a backend, and the program that serves ``tool`` to it; its calls are in a journal."""
    (folder / "journal").touch()
    server = raw_entry(only=[tool], journal=folder / "journal")
    preset = make_preset(tools=[("s1", tool)])
    Config(servers={"s1": server}, presets=[preset]).write(folder / "config")
    async with running_backend() as backend:
        environment = {
            **UNLIMITED,
            "MCP_PROXY_SHUTDOWN_GRACE_S": str(grace_s),
            "MCP_PROXY_REMOTE_URL": backend.url,
            "MCP_PROXY_REMOTE_TOKEN": TOKEN,
        }
        with ExitStack() as stack:
            program = await asyncio.to_thread(stack.enter_context, started(folder, environment))
            await asyncio.to_thread(wait_until, lambda: is_ready(program))
            yield program, backend


async def run_and_stop(folder: Path) -> Ended:
    async with serving_backend(folder, "sleep", grace_s=GRACE_S) as (program, backend):
        return await stop_under(program, backend, folder)


def journal_of(folder: Path) -> list[str]:
    return (folder / "journal").read_text().splitlines()


def is_ready(program: Program) -> bool:
    return str(program.http.get(SERVERS).json()["servers"][0]["state"]) == "ready"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return asyncio.run(run_and_stop(tmp_path_factory.mktemp("connector")))


def test_the_answer_of_a_call_in_flight_arrives(ended: Ended) -> None:
    assert ended.call["structuredContent"] == {"seconds": 1.5}


def test_a_stream_of_changes_ends_with_its_result(ended: Ended) -> None:
    acknowledged, *_, last = ended.listened
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert (last["id"], "result" in last) == (LISTEN_ID, True)


def test_the_connection_closes_with_going_away(ended: Ended) -> None:
    assert ended.close_code == GOING_AWAY


def test_the_program_does_not_reconnect_while_stopping(ended: Ended) -> None:
    assert ended.handshakes == 1


def test_the_program_ends_immediately_after_the_call_is_answered(ended: Ended) -> None:
    assert (ended.exit_code == -signal.SIGTERM, ended.seconds < GRACE_S) == (True, True)


def test_the_program_reports_the_state_of_its_connection(ended: Ended) -> None:
    assert (ended.status["state"], ended.status["links"]) == ("online", 1)
    assert ended.status["server_identifier"].startswith("mcp-tools-proxy-")


def test_the_log_has_the_connection_and_each_frame_as_lines_of_json(ended: Ended) -> None:
    events = [line["event"] for line in ended.log]
    assert events.count("remote.online") == 1
    frames = [line["payload"] for line in ended.log if line["event"] == "remote.frame"]
    (request,) = [it["summary"] for it in frames if "method=tools/call" in it["summary"]]
    assert "params{target=s1:sleep, args=seconds, meta=" in request


def test_the_log_contains_no_token(ended: Ended) -> None:
    assert TOKEN not in json.dumps(ended.log)


async def test_a_call_that_outlives_the_grace_period_gets_an_error_and_is_cancelled(
    tmp_path: Path,
) -> None:
    async with serving_backend(tmp_path, "hang", grace_s=1.0) as (program, backend):
        link = await backend.connected()
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(backend.session().call("s1:hang"))
            await asyncio.to_thread(wait_until, lambda: "hang" in journal_of(tmp_path))
            program.process.send_signal(signal.SIGTERM)
        exit_code = await asyncio.to_thread(program.process.wait, BOUND_S)
    assert "SHUTTING_DOWN" in call.result()["content"][0]["text"]
    assert (link.close_code, exit_code == -signal.SIGTERM) == (GOING_AWAY, True)
