"""What one stream of legacy HTTP+SSE may keep in memory for a client that does not read it."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

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

MAX_UNREAD_BYTES = 1024 * 1024
"""Bytes of the unread messages of one session: while so many wait, its requests are refused.

An answer repeats its request's id, which may be as long as a body: 64 such answers took 400 MB.
"""


@dataclass(slots=True)
class _Backlog:
    """Messages that wait, and their size."""

    count: int = 0
    size_bytes: int = 0

    def check_capacity(self, advice: str) -> None:
        """Raise CapacityExceeded if one more message is too many, whatever its size."""
        if self.count >= MAX_UNREAD or self.size_bytes >= MAX_UNREAD_BYTES:
            raise CapacityExceeded(
                f"{self.count} messages of {self.size_bytes} bytes wait, and {MAX_UNREAD} messages "
                f"or {MAX_UNREAD_BYTES} bytes are the most; {advice}"
            )

    def add(self, size_bytes: int) -> None:
        self.count += 1
        self.size_bytes += size_bytes

    def remove(self, size_bytes: int) -> None:
        self.count -= 1
        self.size_bytes -= size_bytes


class UnreadMessages:
    """The messages of one session that wait, in number and bytes.

    A request counts from its POST until the client reads the answer, so that requests which arrive
    together are bounded as well. A notification or response of the client counts until the SDK
    reads it, and apart from requests: it may be what an open request waits for.
    """

    def __init__(self) -> None:
        self._to_client = _Backlog()
        self._to_server = _Backlog()
        self._unanswered: defaultdict[str, list[int]] = defaultdict(list)
        """Sizes of the requests without an answer, by id; a client may use an id twice."""

    def add_post(self, message: JSONRPCMessage, size_bytes: int) -> None:
        """Count a message that the client has posted. Raises CapacityExceeded."""
        if isinstance(message, JSONRPCRequest):
            self._to_client.check_capacity("read the answers on the stream first")
            self._to_client.add(size_bytes)
            self._unanswered[str(message.id)].append(size_bytes)
        else:
            self._to_server.check_capacity("read the answer to initialize on the stream first")
            self._to_server.add(size_bytes)

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
        self._to_server.remove(size_bytes)

    @contextmanager
    def sending(self, message: JSONRPCMessage) -> Iterator[None]:
        """Count a message to the client while open; an answer in place of its request."""
        size_bytes = len(message.model_dump_json(by_alias=True, exclude_unset=True))
        match message:
            case JSONRPCResponse(id=id_) | JSONRPCError(id=int() | str() as id_):
                size_bytes += self._end_request(id_)  # the SDK still holds the request
        self._to_client.add(size_bytes)
        try:
            yield
        finally:
            self._to_client.remove(size_bytes)

    def _end_request(self, id_: RequestId) -> int:
        """Count a request no longer, if it has no answer yet; return its size in bytes, else 0."""
        if not (sizes := self._unanswered.get(str(id_))):
            return 0
        size_bytes = sizes.pop()
        if not sizes:
            del self._unanswered[str(id_)]
        self._to_client.remove(size_bytes)
        return size_bytes
