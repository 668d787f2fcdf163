"""Servers of real SDKs that restart: their sessions are lost, and the next call works again."""

from tests.support.bounds import until
from tests.support.configuration import Config
from tests.support.mcp_servers.server_programs import running_program
from tests.support.service import running


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
