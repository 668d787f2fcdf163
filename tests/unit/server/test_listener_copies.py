import asyncio
import os
import resource
import socket
from contextlib import ExitStack

import pytest
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.server.http_protocol import BoundedProtocol
from mcp_tools_proxy.server.listener import MAX_LISTENERS, copies_of, listen
from mcp_tools_proxy.server.uvicorn_server import GracefulServer
from tests.support.tables import each_row

CLIENTS = 64
ACCEPT_TURNS = CLIENTS // MAX_LISTENERS + 4
"""Turns for the burst, including some before the first and after the last connection."""


async def unused(scope: Scope, receive: Receive, send: Send) -> None:
    """An unused application: the clients do not send requests."""


def started_server() -> GracefulServer:
    config = uvicorn.Config(unused, http=BoundedProtocol, lifespan="off", log_config=None)
    config.load()
    server = GracefulServer(config, Lifecycle(), grace_s=0)
    server.lifespan = config.lifespan_class(config)
    return server


@each_row("host", ["127.0.0.1", "::1"])
def test_a_burst_is_accepted_several_connections_at_a_time(host: str) -> None:
    async def accept_burst() -> tuple[int, int]:
        server = started_server()
        with listen(host, 0) as listener, ExitStack() as stack:
            await server.startup([listener])
            for _ in range(CLIENTS):  # the loop does not run during this
                stack.enter_context(socket.create_connection(listener.getsockname()[:2]))
            for _ in range(ACCEPT_TURNS):
                await asyncio.sleep(0)
            accepted = len(server.server_state.connections)
            await server.shutdown([listener])
        return accepted, len(server.server_state.connections)

    assert uvloop.run(accept_burst()) == (CLIENTS, 0)


def test_copies_do_not_listen_after_the_server_has_stopped() -> None:
    async def start_and_stop() -> tuple[str, int]:
        server = started_server()
        with listen("127.0.0.1", 0) as listener:
            host, port = listener.getsockname()
            await server.startup([listener])
            await server.shutdown([listener])
        return host, port

    address = uvloop.run(start_and_stop())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


@each_row(("descriptors", "copies"), [(63, 0), (256, 3), (1024, 15), (4096, 15)])
def test_the_number_of_copies_depends_on_available_descriptors(
    descriptors: int, copies: int
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < descriptors:
        pytest.skip("the machine allows fewer descriptors")
    with listen("127.0.0.1", 0) as listener, ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, before[1]))
        try:
            made = copies_of(listener)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for copy in made:
            stack.enter_context(copy)
        assert len(made) == copies


def test_copies_in_another_worker_leave_the_listener_non_blocking() -> None:
    with listen("127.0.0.1", 0) as first:
        mine = copies_of(first)
        with socket.socket(fileno=os.dup(first.fileno())) as second:
            theirs = copies_of(second)
            assert not os.get_blocking(first.fileno())
        for copy in (*mine, *theirs):
            copy.close()
