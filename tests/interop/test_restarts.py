import asyncio
from pathlib import Path

import pytest

from tests.interop.everything_server import node, running_web_program
from tests.mcp_server.clients.client_programs import MCP1_PYTHON
from tests.support.bounds import until
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.server_programs import running_program
from tests.support.service import SERVERS, running

HERE = Path(__file__).parent
SDKS = {
    "typescript": [node(), str(HERE / "sessions_server.mjs"), "PORT"],
    "python-1": [str(MCP1_PYTHON), str(HERE / "mcp1_server.py"), "PORT"],
}
UNKNOWN_SESSION = [
    *("sdk", "400:Server not initialized", "400:Bad Request: No valid session ID provided"),
    *("401", "401:Unauthorized", "404", "404:Session not found", "500", "500:Internal error"),
    *("503", "200:Session not found"),
]


async def test_a_python_server_is_used_again_after_a_restart() -> None:
    module = "tests.support.mcp_servers"
    async with running_program("http", module=module, era="legacy") as program:
        entry = {"transport": "streamable-http", "url": program.url}
        async with running(config=Config(servers={"s": entry})) as service:
            state = service.gateway.pool.session("s")
            assert state is not None
            await program.restart()
            state.connection_state.probe_requested.set()
            await until(lambda: state.status.reconnects == 1, "a new session begins")


@pytest.mark.parametrize("unknown_session", UNKNOWN_SESSION)
@pytest.mark.parametrize("sdk", SDKS)
async def test_a_new_session_starts_after_a_restart_for_every_form_of_the_refusal(
    sdk: str, unknown_session: str
) -> None:
    with running_web_program([*SDKS[sdk], unknown_session]) as server:
        preset = make_preset(tools=[("s", "echo")])
        async with running(config=Config(servers={"s": server.entry}, presets=[preset])) as service:
            assert await service.code("s:echo", {"text": "a"}) == "OK"
            state = service.gateway.pool.session("s")
            assert state is not None
            server.restart()
            for _ in range(2):  # the first may use a connection that the old process closed
                await service.code("s:echo", {"text": "b"})
            await until(lambda: state.status.reconnects == 1, "a new session begins")
            assert [await service.code("s:echo", {"text": "c"}) for _ in range(3)] == ["OK"] * 3
            (status,) = (await service.get(SERVERS))["servers"]
            assert (status["state"], status["reconnects"]) == ("ready", 1)


async def test_calls_succeed_although_the_server_closes_kept_alive_connections_after_a_second() -> (
    None
):
    """Calls are sent during the close; aiohttp may notice it only after sending."""
    with running_web_program([*SDKS["python-1"], "sdk"]) as server:
        preset = make_preset(tools=[("s", "read")])
        async with running(config=Config(servers={"s": server.entry}, presets=[preset])) as service:
            codes = []
            for number in range(8):
                await asyncio.sleep(0.985 + number * 0.005)
                codes.append(await service.code("s:read", {"text": "a"}))
            (status,) = (await service.get(SERVERS))["servers"]
    assert (codes, status["reconnects"]) == (["OK"] * 8, 0)
