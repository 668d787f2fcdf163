"""Recognition of JSON-RPC messages and of their ids.

An id is a text or an integer; ``True``, an int in Python, is rejected.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError

SendMessage = Callable[[Mapping[str, object]], Awaitable[None]]
RequestId = int | str


class JsonRpcError(Exception):
    """A JSON-RPC error, from a server or the gateway.

    ``data`` can be any JSON; None is omitted.
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data
        self.came_first = False
        """Whether the server sent the error before any request to the client."""
        self.refusal: ProxyError | None = None
        self.is_recorded = False
        """Whether the failed request made a call, which has an audit record."""

    @property
    def as_json(self) -> dict[str, object]:
        """The JSON-RPC error object."""
        error: dict[str, object] = {"code": self.code, "message": self.message}
        return error if self.data is None else error | {"data": self.data}


def request_id_of(content: object) -> RequestId | None:
    """Return the id of a JSON-RPC request; None if ``content`` is something different."""
    if not isinstance(content, dict) or isinstance(content.get("id"), bool):
        return None
    match content:
        case {"jsonrpc": "2.0", "id": int() | str() as id_, "method": str()}:
            return id_ if isinstance(content.get("params"), dict | None) else None
    return None


def is_notification(content: object) -> bool:
    """Return whether ``content`` is a JSON-RPC notification."""
    if not isinstance(content, dict) or "id" in content:
        return False
    match content:
        case {"jsonrpc": "2.0", "method": str()}:
            return isinstance(content.get("params"), dict | None)
    return False


def is_request(content: object) -> bool:
    """Return whether a message needs a response, even if it is a malformed request."""
    match content:
        case {"id": bool()}:
            return False
        case {"method": str(), "id": int() | str()}:
            return True
    return False


def refusable_id(content: object) -> RequestId | None:
    """Return the id for the refusal of a malformed request; None if it lacks a usable one."""
    match content:
        case {"id": bool()}:
            return None
        case {"id": int() | str() as id_, "method": _}:
            return id_
    return None


def is_response(content: object) -> bool:
    """Return whether ``content`` is a JSON-RPC response; the id of an error can be null.

    With an id, any result or error is accepted: after a refusal, the request would stay open.
    """
    match content:
        case {"method": _}:
            return False
        case {"jsonrpc": "2.0", "id": bool()}:
            return False
        case {"jsonrpc": "2.0", "id": int() | str(), "result": _}:
            return True
        case {"jsonrpc": "2.0", "id": int() | str(), "error": _}:
            return True
        case {"jsonrpc": "2.0", "id": None, "error": {"code": int(), "message": str()}}:
            return True
    return False


def check_message(content: object) -> dict[str, Any]:
    """Return ``content`` if it is one JSON-RPC 2.0 message. Raises InvalidRequest."""
    if isinstance(content, dict):
        if request_id_of(content) is not None or is_notification(content) or is_response(content):
            return content
        if content.get("jsonrpc") != "2.0":
            raise InvalidRequest('jsonrpc should be "2.0"')
        if "method" in content and not isinstance(content.get("params"), dict | None):
            raise InvalidRequest("params should be an object")
        if "method" in content and "id" in content:
            raise InvalidRequest("the id of a request should be a string or an integer")
    raise InvalidRequest("the message should be one JSON-RPC 2.0 request, notification or response")
