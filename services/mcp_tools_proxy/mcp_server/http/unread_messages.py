"""What one stream of legacy HTTP+SSE may keep in memory for a client that does not read it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.wire.json_rpc import RequestId

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
    which arrive together are bounded as well.
    """

    def __init__(self) -> None:
        self._unread = 0
        """Number of messages that wait for the client."""
        self._waiting_bytes = 0
        """Bytes of these, and of requests until then."""
        self._unanswered: dict[str, int] = {}
        """Bytes of the requests without an answer, by id."""

    def add_request(self, id_: RequestId, size_bytes: int) -> None:
        """Count a request that the client has posted. Raises CapacityExceeded."""
        if self._unread >= MAX_UNREAD:
            raise CapacityExceeded(
                f"{MAX_UNREAD} messages on the stream are not read yet, which is the limit; read "
                "them first"
            )
        if self._waiting_bytes >= MAX_WAITING_BYTES:
            raise CapacityExceeded(
                f"{self._waiting_bytes} bytes on the stream are not read yet, the limit is "
                f"{MAX_WAITING_BYTES}; read them first, and wait for answers before you send more"
            )
        self._unanswered[str(id_)] = max(size_bytes, LEAST_BYTES)
        self._waiting_bytes += max(size_bytes, LEAST_BYTES)

    def end_request(self, id_: object) -> int:
        """Count a request no longer, if it has no answer yet; return its size in bytes, else 0."""
        size_bytes = self._unanswered.pop(str(id_), 0)
        self._waiting_bytes -= size_bytes
        return size_bytes

    @contextmanager
    def sending(self, message: Mapping[str, object], size_bytes: int) -> Iterator[None]:
        """Count a message to the client while open; an answer in place of its request."""
        if "method" not in message:
            size_bytes += self.end_request(message["id"])  # its request is still in memory
        self._unread += 1
        self._waiting_bytes += size_bytes
        try:
            yield
        finally:
            self._unread -= 1
            self._waiting_bytes -= size_bytes
