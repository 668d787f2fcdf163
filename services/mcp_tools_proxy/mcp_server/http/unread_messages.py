"""What one stream of legacy HTTP+SSE may keep in memory for a client that does not read it."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from mcp.types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from mcp_tools_proxy.domain.client import CapacityExceeded

MAX_UNREAD = 64
"""Unread messages of one session; beyond it the session's requests are refused."""

MAX_WAITING_BYTES = 1024 * 1024
"""Bytes that wait for one session: while so many do, its requests are refused.

An answer repeats its request's id, which may be as long as a body: 64 such answers took 400 MB.
"""

LEAST_BYTES = 1024
"""What the smallest message counts: so 1,024 requests may be open, which all got a task."""


class UnreadMessages:
    """The messages of one session that wait, in number and bytes.

    The bytes of a request count from its POST until the client reads the answer, so that requests
    which arrive together are bounded as well. A notification or response of the client counts until
    the SDK reads it, and apart from requests: it may be what an open request waits for.
    """

    def __init__(self) -> None:
        self._unread = 0
        """Number of messages that wait for the client."""
        self._to_client_bytes = 0
        """Bytes of these, and of requests until then."""
        self._to_server_bytes = 0
        """Bytes of notifications and responses that wait for the SDK."""
        self._unanswered: defaultdict[str, list[int]] = defaultdict(list)
        """Bytes of the requests without an answer, by id; a client may use an id twice."""

    def add_post(self, message: JSONRPCMessage, size_bytes: int) -> None:
        """Count a message that the client has posted. Raises CapacityExceeded."""
        size_bytes = max(size_bytes, LEAST_BYTES)
        if not isinstance(message, JSONRPCRequest):
            _check_capacity(self._to_server_bytes)
            self._to_server_bytes += size_bytes
            return
        if self._unread >= MAX_UNREAD:
            raise CapacityExceeded(f"{MAX_UNREAD} messages wait on the stream; read them first")
        _check_capacity(self._to_client_bytes)
        self._to_client_bytes += size_bytes
        self._unanswered[str(message.id)].append(size_bytes)

    def end_post(self, message: JSONRPCMessage, size_bytes: int, *, delivered: bool) -> None:
        """Count a posted message no longer as one that waits for the SDK, which got it or not."""
        match message:
            case JSONRPCRequest(id=id_):
                if not delivered:  # it gets no answer
                    self._end_request(id_)
                return
            case JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": int() | str() as id_}
            ) if delivered:
                self._end_request(id_)
        self._to_server_bytes -= max(size_bytes, LEAST_BYTES)

    @contextmanager
    def sending(self, message: JSONRPCMessage) -> Iterator[None]:
        """Count a message to the client while open; an answer in place of its request."""
        size_bytes = len(message.model_dump_json(by_alias=True, exclude_unset=True))
        match message:
            case JSONRPCResponse(id=id_) | JSONRPCError(id=int() | str() as id_):
                size_bytes += self._end_request(id_)  # the SDK still holds the request
        self._unread += 1
        self._to_client_bytes += size_bytes
        try:
            yield
        finally:
            self._unread -= 1
            self._to_client_bytes -= size_bytes

    def _end_request(self, id_: RequestId) -> int:
        """Count a request no longer, if it has no answer yet; return its size in bytes, else 0."""
        if not (sizes := self._unanswered.get(str(id_))):
            return 0
        size_bytes = sizes.pop()
        if not sizes:
            del self._unanswered[str(id_)]
        self._to_client_bytes -= size_bytes
        return size_bytes


def _check_capacity(waiting_bytes: int) -> None:
    """Raise CapacityExceeded if one more message is too many, whatever its size."""
    if waiting_bytes >= MAX_WAITING_BYTES:
        raise CapacityExceeded(
            f"{waiting_bytes} bytes wait, and {MAX_WAITING_BYTES} are the most; "
            "read the stream, and wait for the answers"
        )
