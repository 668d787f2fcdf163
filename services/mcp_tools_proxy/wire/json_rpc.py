"""Recognises requests and notifications of JSON-RPC, and the id that a response needs.

An id is a text or a whole number: ``True`` is an int in Python, and no id.
"""

from collections.abc import Awaitable, Callable, Mapping

SendMessage = Callable[[Mapping[str, object]], Awaitable[None]]
"""Sends one JSON-RPC message to a client."""


def request_id_of(content: object) -> int | str | None:
    """Return the id of a JSON-RPC request; None if ``content`` is no such request."""
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
    """Return whether a message needs a response, even if it is not quite a JSON-RPC request."""
    match content:
        case {"id": bool()}:
            return False
        case {"method": str(), "id": int() | str()}:
            return True
    return False


def refusable_id(content: object) -> int | str | None:
    """Return the id under which a malformed request can be refused; None if it has none."""
    match content:
        case {"id": bool()}:
            return None
        case {"id": int() | str() as id_, "method": _}:
            return id_
    return None
