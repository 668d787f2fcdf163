"""Head and body of a response are written together, unless the head cannot wait."""

from mcp_tools_proxy.server.slow_clients import JOINED_BYTES, JoinedWrites
from tests.support.tables import each_row

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Cycle:
    """The attributes of uvicorn's cycle that JoinedWrites reads."""

    def __init__(self, method: str = "POST") -> None:
        self.scope = {"method": method}
        self.response_started = False
        self.chunked_encoding: bool | None = None

    def start(self, *, chunked: bool = False) -> None:
        """Set the state of uvicorn before it writes the head."""
        self.response_started, self.chunked_encoding = True, chunked


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def joined(cycle: Cycle) -> tuple[JoinedWrites, Transport]:
    transport = Transport()
    return JoinedWrites(transport, cycle), transport  # type: ignore[arg-type]


def test_a_head_with_a_length_waits_for_its_body() -> None:
    cycle = Cycle()
    writes, transport = joined(cycle)
    cycle.start()
    writes.write(HEAD)
    assert transport.written == []
    writes.write(b"one")
    writes.write(b"two")
    assert transport.written == [HEAD + b"one", b"two"]


def test_a_large_body_is_not_copied() -> None:
    cycle = Cycle()
    writes, transport = joined(cycle)
    cycle.start()
    body = b"x" * (JOINED_BYTES + 1)
    for data in (HEAD, body):
        writes.write(data)
    assert transport.written == [HEAD, body]
    assert transport.written[1] is body


@each_row(("method", "chunked"), [("POST", True), ("HEAD", False)], ids=["stream", "no body comes"])
def test_a_head_that_cannot_wait_is_written_immediately(method: str, chunked: bool) -> None:
    cycle = Cycle(method)
    writes, transport = joined(cycle)
    cycle.start(chunked=chunked)
    writes.write(HEAD)
    assert transport.written == [HEAD]


def test_100_continue_is_sent_before_the_response() -> None:
    cycle = Cycle()
    writes, transport = joined(cycle)
    writes.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    cycle.start()
    writes.write(HEAD)
    writes.write(b"body")
    assert transport.written == [b"HTTP/1.1 100 Continue\r\n\r\n", HEAD + b"body"]


def test_a_head_without_a_body_is_written_before_the_end() -> None:
    cycle = Cycle()
    writes, transport = joined(cycle)
    cycle.start()
    writes.write(HEAD)
    writes.close()
    assert (transport.written, writes.is_closing()) == ([HEAD], True)
