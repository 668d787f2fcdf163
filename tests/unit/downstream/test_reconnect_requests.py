from mcp_tools_proxy.domain.server import ServerState
from mcp_tools_proxy.downstream.connection import ConnectionFailure, NotUsableAsConfigured
from tests.support.tables import each_row
from tests.support.virtual_time import clock
from tests.unit.downstream.fake_server import DONE, FakeServer, tool
from tests.unit.downstream.observed_session import call, running, until


@each_row(
    ("failure", "attempts"), [(ConnectionFailure("refused"), 12), (NotUsableAsConfigured("no"), 1)]
)
async def test_a_request_ends_a_long_pause_immediately(
    failure: ConnectionFailure, attempts: int
) -> None:
    server = FakeServer(tool("add"))
    server.refuses_with = failure
    async with running(server, ready=False) as watched:
        await until(lambda: len(server.dials) == attempts)
        await watched.session.first_attempt_over.wait()
        await until(lambda: clock() > server.dials[-1] + 1)
        server.refuses_with = None
        requested_at = clock()
        watched.session.connection_state.request_reconnect()
        assert await call(watched.session) == DONE
        assert (len(server.dials), server.dials[-1] - requested_at < 0.1) == (attempts + 1, True)


async def test_a_working_connection_is_replaced_without_a_pause() -> None:
    server = FakeServer(tool("add"))
    async with running(server) as watched:
        state = watched.session.connection_state
        requested_at = clock()
        state.request_reconnect()
        state.request_reconnect()
        assert watched.session.status.state is ServerState.RECONNECTING
        await until(lambda: len(server.links) == 2)
        assert (server.dials[1] - requested_at < 0.1, server.closed) == (True, 1)
        await until(lambda: watched.session.status.state is ServerState.READY)
        await until(lambda: clock() > requested_at + 60)
        assert len(server.dials) == 2


async def test_a_running_attempt_satisfies_the_request() -> None:
    server = FakeServer(tool("add"))
    server.dial_takes_s = 3
    async with running(server, ready=False) as watched:
        await until(lambda: len(server.dials) == 1)
        watched.session.connection_state.request_reconnect()
        await until(lambda: watched.session.status.state is ServerState.READY)
        await until(lambda: clock() > server.dials[0] + 60)
        assert len(server.dials) == 1
