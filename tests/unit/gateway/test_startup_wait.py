from mcp_tools_proxy.gateway.lifecycle import StartupWait


class Start:
    """A wait of 10 seconds from 5; the test changes ``now`` and ``tried``."""

    def __init__(self) -> None:
        self.now = 5.0
        self.tried = False
        self.wait = StartupWait(10.0, lambda: self.now)
        self.wait.begin(lambda: self.tried)


def test_the_wait_continues_while_a_server_was_not_tried() -> None:
    start = Start()
    start.now = 14.9
    assert not start.wait.is_over()


def test_the_wait_ends_when_every_server_was_tried() -> None:
    start = Start()
    start.tried = True
    assert start.wait.is_over()


def test_the_wait_ends_at_its_timeout() -> None:
    start = Start()
    start.now = 15.0
    assert start.wait.is_over()


def test_a_server_added_by_a_reload_is_not_waited_for() -> None:
    start = Start()
    start.tried = True
    start.wait.is_over()
    start.tried = False
    assert start.wait.is_over()


def test_without_servers_to_wait_for_startup_is_complete() -> None:
    assert StartupWait(10.0).is_over()
