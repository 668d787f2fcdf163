"""The requests that sessions of the older eras wait for: at most one under each id.

The SDK keeps the way back to a client by the request's id alone: a second one under the same id
would take the first one's answer away, and the first would wait for ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mcp.types import JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from mcp_tools_proxy.domain.errors import InvalidRequest


class InFlight:
    """The ids in use, by session."""

    def __init__(self) -> None:
        self._ids: set[tuple[bytes, str]] = set()

    @contextmanager
    def taking(self, session_id: bytes | None, body: bytes) -> Iterator[None]:
        """Have a request's id in use meanwhile. Raises InvalidRequest.

        ``session_id`` is None for the request that begins a session. A body that is no JSON is
        left to the SDK, which knows the error's code.
        """
        id_ = _id_in(body)
        if id_ is None or session_id is None:
            yield
            return
        key = (session_id, id_)
        if key in self._ids:
            raise InvalidRequest("a request with this id is not answered yet; take another id")
        self._ids.add(key)
        try:
            yield
        finally:
            self._ids.discard(key)


def _id_in(body: bytes) -> str | None:
    """Give the id that a message asks for an answer under, as the SDK spells it."""
    try:
        content = from_json(body)
    except ValueError:
        return None
    try:
        message = jsonrpc_message_adapter.validate_python(content, by_name=False)
    except ValidationError:
        raise InvalidRequest("the body should be one message of JSON-RPC 2.0") from None
    return str(message.id) if isinstance(message, JSONRPCRequest) else None
