"""Closing a listener does not lose connections that clients consider open."""

import asyncio
import socket
from contextlib import ExitStack

import pytest

from mcp_tools_proxy.server.listener import drain_listener, drop_new_connections, listen
from tests.support.bounds import until

CLIENTS = 50


async def test_pending_connections_are_accepted_before_the_listener_closes() -> None:
    accepted: list[asyncio.BaseTransport] = []

    class Accepting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.append(transport)

    with listen("127.0.0.1", 0) as listener, ExitStack() as stack:
        server = await asyncio.get_running_loop().create_server(Accepting, sock=listener)
        for _ in range(CLIENTS):  # the loop does not run during this
            stack.enter_context(socket.create_connection(listener.getsockname()))
        await drain_listener(listener)
        server.close()
        await until(lambda: len(accepted) == CLIENTS)
        for transport in accepted:
            transport.close()


def can_drop_connections() -> bool:
    """Return whether this user may attach the filter; Linux 6.18 requires CAP_NET_ADMIN."""
    with listen("127.0.0.1", 0) as listener:
        return drop_new_connections(listener)


@pytest.mark.skipif(not can_drop_connections(), reason="the system lets this user attach no filter")
async def test_connections_during_the_close_are_refused_before_data_is_sent() -> None:
    with listen("127.0.0.1", 0) as listener, socket.socket() as late:
        address = listener.getsockname()
        listener.listen()
        await drain_listener(listener)
        late.setblocking(False)
        connecting = asyncio.ensure_future(asyncio.get_running_loop().sock_connect(late, address))
        await asyncio.sleep(0)  # its first segment is sent
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await connecting
