import socket

import pytest

from mcp_tools_proxy.system.egress import (
    LONGEST_MS,
    SocketFactory,
    keepalive_sockets,
    timeout_sockets,
)
from tests.support.tables import each_row

ADDRESS = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 1))


def option_of(sockets: SocketFactory, level: int, option: int) -> int:
    with sockets(ADDRESS) as opened:
        return opened.getsockopt(level, option)


def test_a_silent_connection_is_kept_alive() -> None:
    sockets = keepalive_sockets()
    assert option_of(sockets, socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


@each_row(("option", "value"), [("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)])
def test_a_vanished_peer_is_noticed_within_a_minute(option: str, value: int) -> None:
    number = getattr(socket, option, None)
    if number is None:
        pytest.skip("not on this platform")
    assert option_of(keepalive_sockets(), socket.IPPROTO_TCP, number) == value


@each_row(("seconds", "milliseconds"), [(40.0, 40_000), (1e9, LONGEST_MS)])
def test_sent_data_can_stay_unacknowledged_for_a_limited_time(
    seconds: float, milliseconds: int
) -> None:
    number = getattr(socket, "TCP_USER_TIMEOUT", None)
    if number is None:
        pytest.skip("not on this platform")
    assert option_of(timeout_sockets(seconds), socket.IPPROTO_TCP, number) == milliseconds
