"""What waits on a stream of legacy HTTP+SSE is bounded in number and in bytes."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest
from mcp.types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.mcp_server.http.unread_messages import (
    LEAST_BYTES,
    MAX_UNREAD,
    MAX_WAITING_BYTES,
    UnreadMessages,
)

PROGRESS = JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params={})
HALF = MAX_WAITING_BYTES // 2


def request(id_: int | str) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=id_, method="ping")


def answer(id_: int | str, text: str = "") -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=id_, result={"text": text})


def cancelled(id_: int | str) -> JSONRPCNotification:
    params = {"requestId": id_}
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)


def post(unread: UnreadMessages, message: JSONRPCMessage, size_bytes: int = 1) -> None:
    """Post a message that the SDK takes at once."""
    unread.add_post(message, size_bytes)
    unread.end_post(message, size_bytes, delivered=True)


def refuses(unread: UnreadMessages, message: JSONRPCMessage) -> bool:
    """Return whether one more message is refused."""
    try:
        unread.add_post(message, 1)
    except CapacityExceeded:
        return True
    unread.end_post(message, 1, delivered=False)
    return False


@contextmanager
def waiting(*messages: AbstractContextManager[None]) -> Iterator[None]:
    with ExitStack() as stack:
        for message in messages:
            stack.enter_context(message)
        yield


def test_many_small_requests_may_be_open_and_no_more() -> None:
    unread = UnreadMessages()
    for id_ in range(MAX_WAITING_BYTES // LEAST_BYTES - 1):
        post(unread, request(id_))
    assert not refuses(unread, request("one more"))
    post(unread, request("the last"))
    assert refuses(unread, request("one too many"))


def test_so_many_answers_wait_for_the_client_and_no_more() -> None:
    unread = UnreadMessages()
    with waiting(*(unread.sending(answer(id_)) for id_ in range(MAX_UNREAD - 1))):
        assert not refuses(unread, request("one more"))
        with unread.sending(answer("the last")):
            assert refuses(unread, request("one too many"))


def test_so_many_bytes_wait_for_an_answer_and_no_more() -> None:
    unread = UnreadMessages()
    post(unread, request(1), HALF)
    assert not refuses(unread, request(2))
    post(unread, request(2), HALF)
    assert refuses(unread, request(3))


def test_a_request_of_any_size_is_taken_while_nothing_waits() -> None:
    unread = UnreadMessages()
    unread.add_post(request(1), 10 * MAX_WAITING_BYTES)
    assert refuses(unread, request(2))


def test_a_request_waits_until_its_answer_is_read() -> None:
    unread = UnreadMessages()
    post(unread, request("a"), MAX_WAITING_BYTES)
    with unread.sending(answer("a")):
        assert refuses(unread, request("b"))
    assert not refuses(unread, request("b"))


def test_the_bytes_of_answers_count() -> None:
    unread = UnreadMessages()
    with unread.sending(answer(1, "x" * HALF)):
        assert not refuses(unread, request(3))
        with unread.sending(answer(2, "x" * HALF)):
            assert refuses(unread, request(3))
    assert not refuses(unread, request(3))


@pytest.mark.parametrize("count", [1, MAX_UNREAD])
def test_what_the_server_sends_by_itself_counts_too(count: int) -> None:
    unread = UnreadMessages()
    with waiting(*(unread.sending(PROGRESS) for _ in range(count))):
        assert refuses(unread, request(1)) == (count == MAX_UNREAD)


def test_a_cancelled_request_waits_no_longer() -> None:
    unread = UnreadMessages()
    post(unread, request(7), MAX_WAITING_BYTES)
    post(unread, cancelled(8))
    assert refuses(unread, request(9))
    post(unread, cancelled("7"))
    assert not refuses(unread, request(9))


def test_a_request_that_was_not_delivered_waits_for_nothing() -> None:
    unread = UnreadMessages()
    unread.add_post(request(1), MAX_WAITING_BYTES)
    unread.end_post(request(1), MAX_WAITING_BYTES, delivered=False)
    assert not refuses(unread, request(2))


def test_two_requests_with_one_id_count_as_two() -> None:
    unread = UnreadMessages()
    post(unread, request(1), MAX_WAITING_BYTES)
    post(unread, cancelled(1))
    for _ in range(2):
        post(unread, request(1), HALF)
    with unread.sending(answer(1)):
        assert refuses(unread, request(2))
    post(unread, request(1), HALF)
    assert refuses(unread, request(2))


def test_what_an_open_request_waits_for_is_taken_while_requests_are_refused() -> None:
    unread = UnreadMessages()
    post(unread, request(1), MAX_WAITING_BYTES)
    assert (refuses(unread, request(2)), refuses(unread, answer("asked"))) == (True, False)


@pytest.mark.parametrize(("count", "size_bytes"), [(1024, 1), (2, HALF)])
def test_notifications_that_the_server_does_not_take_are_bounded(
    count: int, size_bytes: int
) -> None:
    unread = UnreadMessages()
    for _ in range(count):
        assert not refuses(unread, PROGRESS)
        unread.add_post(PROGRESS, size_bytes)
    assert refuses(unread, PROGRESS)
    unread.end_post(PROGRESS, size_bytes, delivered=True)
    assert not refuses(unread, PROGRESS)
