from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.mcp.server.http.legacy_sse import (
    LEAST_BYTES,
    MAX_UNREAD,
    MAX_WAITING_BYTES,
    UnreadMessages,
)
from tests.support.configuration import Json
from tests.support.tables import each_row

PROGRESS: Json = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
HALF = MAX_WAITING_BYTES // 2


def answer(id_: int | str) -> Json:
    return {"jsonrpc": "2.0", "id": id_, "result": {}}


def refuses(unread: UnreadMessages, id_: int | str) -> bool:
    """Return whether one more request is refused."""
    try:
        unread.add_request(id_, 1)
    except CapacityExceeded:
        return True
    unread.end_request(id_)
    return False


@contextmanager
def waiting(*messages: AbstractContextManager[None]) -> Iterator[None]:
    with ExitStack() as stack:
        for message in messages:
            stack.enter_context(message)
        yield


def test_the_number_of_open_requests_is_bounded() -> None:
    unread = UnreadMessages()
    for id_ in range(MAX_WAITING_BYTES // LEAST_BYTES - 1):
        unread.add_request(id_, 1)
    assert not refuses(unread, "one more")
    unread.add_request("the last", 1)
    assert refuses(unread, "one too many")


def test_the_number_of_unread_answers_is_bounded() -> None:
    unread = UnreadMessages()
    with waiting(*(unread.sending(answer(id_), 1) for id_ in range(MAX_UNREAD - 1))):
        assert not refuses(unread, "one more")
        with unread.sending(answer("the last"), 1):
            assert refuses(unread, "one too many")


def test_the_bytes_of_open_requests_are_bounded() -> None:
    unread = UnreadMessages()
    unread.add_request(1, HALF)
    assert not refuses(unread, 2)
    unread.add_request(2, HALF)
    assert refuses(unread, 3)


def test_a_request_of_any_size_is_accepted_by_an_empty_queue() -> None:
    unread = UnreadMessages()
    unread.add_request(1, 10 * MAX_WAITING_BYTES)
    assert refuses(unread, 2)


def test_a_request_counts_until_its_answer_is_read() -> None:
    unread = UnreadMessages()
    unread.add_request("a", MAX_WAITING_BYTES)
    with unread.sending(answer("a"), 1):
        assert refuses(unread, "b")
    assert not refuses(unread, "b")


def test_the_bytes_of_answers_are_counted() -> None:
    unread = UnreadMessages()
    with unread.sending(answer(1), HALF):
        assert not refuses(unread, 3)
        with unread.sending(answer(2), HALF):
            assert refuses(unread, 3)
    assert not refuses(unread, 3)


@each_row("count", [1, MAX_UNREAD])
def test_messages_initiated_by_the_server_are_counted(count: int) -> None:
    unread = UnreadMessages()
    with waiting(*(unread.sending(PROGRESS, 1) for _ in range(count))):
        assert refuses(unread, 1) == (count == MAX_UNREAD)


def test_a_cancelled_request_is_no_longer_counted() -> None:
    unread = UnreadMessages()
    unread.add_request(7, MAX_WAITING_BYTES)
    unread.end_request(8)
    assert refuses(unread, 9)
    unread.end_request("7")
    assert not refuses(unread, 9)
