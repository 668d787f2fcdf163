import asyncio
import signal
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import BOTH, ENVELOPE, INITIALIZE, MODERN, TENANT
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import UNLIMITED, Program, started, wait_until
from tests.support.raw_mcp_client import messages_of

pytestmark = [pytest.mark.e2e]

GRACE_S = BOUND_S


class Clients:
    """Clients of a started program, over one pool of connections."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def session(self) -> dict[str, str]:
        """Start a session of the older era and return the headers of its requests."""
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
        begun = await self._http.post("/mcp", json=body, headers={**BOTH, **TENANT})
        headers = {**BOTH, **TENANT, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._http.post("/mcp", json=done, headers=headers)
        return headers

    async def stream(self, path: str, headers: dict[str, str], opened: asyncio.Event) -> None:
        """Read a stream from start to end, which must be a regular one."""
        async with self._http.stream("GET", path, headers=headers) as response:
            assert response.status_code == 200
            opened.set()
            await response.aread()

    async def listen(self, opened: asyncio.Event) -> list[Json]:
        method = "subscriptions/listen"
        params = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
        body = {"jsonrpc": "2.0", "id": "l", "method": method, "params": params}
        headers = {**BOTH, **TENANT, "MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        received = []
        async with (
            self._http.stream("POST", "/mcp", json=body, headers=headers) as response,
            aclosing(messages_of(response)) as messages,
        ):
            async for message in messages:
                received.append(message)
                opened.set()
        return received

    async def call_over_sse(self, tool: str, **arguments: object) -> str:
        """Call over a stream of legacy HTTP+SSE, and return the stream's messages until its end."""
        received = ""
        params = {"name": f"s1:{tool}", "arguments": arguments}
        messages = [
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params},
        ]
        async with self._http.stream("GET", "/mcp/sse", headers=TENANT) as response:
            async for text in response.aiter_text():
                received += text
                if messages and "data: " in received and received.endswith("\r\n\r\n"):
                    address = received.partition("data: ")[2].partition("\r\n")[0]
                    for message in messages:
                        await self._http.post(address, json=message, headers=TENANT)
                    messages = []
        return received

    async def call(self, headers: dict[str, str], tool: str, **arguments: object) -> str:
        """Call in a session, and return the complete answer."""
        params = {"name": f"s1:{tool}", "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
        return (await self._http.post("/mcp", json=body, headers=headers)).text


class Ended(NamedTuple):
    """The clients' results during the stop of a program, and the duration of the stop."""

    calls: list[str]
    listened: list[Json]
    streams: list[BaseException | None]
    exit_code: int
    seconds: float


async def stop_under(program: Program, folder: Path) -> Ended:
    """Open one of everything, start a call, and send SIGTERM."""
    base = f"http://127.0.0.1:{program.port}"
    async with httpx.AsyncClient(base_url=base, timeout=BOUND_S) as http:
        clients = Clients(http)
        opened = [asyncio.Event() for _ in range(4)]
        sessions = [await clients.session() for _ in range(3)]
        async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as tasks:
            streams = [
                tasks.create_task(clients.stream(path, headers, event))
                for path, headers, event in (
                    ("/mcp", sessions[0], opened[0]),
                    ("/mcp", sessions[1], opened[1]),
                    ("/mcp/sse", TENANT, opened[2]),
                )
            ]
            listening = tasks.create_task(clients.listen(opened[3]))
            calls = [
                tasks.create_task(clients.call(sessions[2], "sleep", seconds=1.5)),
                tasks.create_task(clients.call_over_sse("sleep", seconds=1.5)),
            ]
            for event in opened:
                await event.wait()
            journal = folder / "journal"
            await asyncio.to_thread(
                wait_until, lambda: journal.read_text().splitlines().count("sleep") == len(calls)
            )
            begin = asyncio.get_running_loop().time()
            program.process.send_signal(signal.SIGTERM)
        exit_code = await asyncio.to_thread(program.process.wait, BOUND_S)
        seconds = asyncio.get_running_loop().time() - begin
    answers = [call.result() for call in calls]
    ends = [stream.exception() for stream in streams]
    return Ended(answers, listening.result(), ends, exit_code, seconds)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("stopping")
    (folder / "journal").touch()
    server = raw_entry(only=["sleep"], journal=folder / "journal")
    preset = make_preset(tools=[("s1", "sleep")])
    Config(servers={"s1": server}, presets=[preset]).write(folder / "config")
    environment = {**UNLIMITED, "MCP_PROXY_SHUTDOWN_GRACE_S": str(GRACE_S)}
    with started(folder, environment) as program:
        program.wait_for_server()
        return asyncio.run(stop_under(program, folder))


def test_the_answers_of_calls_in_flight_arrive(ended: Ended) -> None:
    assert ['"slept"' in answer for answer in ended.calls] == [True, True]


def test_a_stream_of_changes_ends_with_its_result(ended: Ended) -> None:
    acknowledged, *_, last = ended.listened
    assert (acknowledged["method"], last["id"], "result" in last) == (
        "notifications/subscriptions/acknowledged",
        "l",
        True,
    )


def test_the_streams_of_sessions_and_of_legacy_sse_end_regularly(ended: Ended) -> None:
    assert ended.streams == [None, None, None]


def test_the_program_ends_as_soon_as_the_call_is_answered(ended: Ended) -> None:
    assert (ended.exit_code == -signal.SIGTERM, ended.seconds < GRACE_S) == (True, True)
