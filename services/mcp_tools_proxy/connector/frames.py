"""Parses and writes the envelope around every message of the connector (seed 002, W-02, W-03).

In: ``{"session_identifier", "message"}``; out, ``target_server_identifier`` as well. ``message`` is
JSON-RPC as MCP has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic_core import to_json

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.wire.identifiers import is_identifier
from mcp_tools_proxy.wire.request_json import repeated_key
from mcp_tools_proxy.wire.strict_json import RepeatedKey, TooManyItems, parse_strict


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of the backend: a message, any JSON value, for one of its sessions."""

    session_identifier: str
    message: object


class BadFrame(Exception):
    """A frame that is ignored; the message is one line and quotes nothing of the frame.

    ``frame`` is set if its session and its request are certain, so that it can be answered with
    ``error``.
    """

    def __init__(
        self, reason: str, *, frame: Frame | None = None, error: InvalidRequest | None = None
    ) -> None:
        super().__init__(reason)
        self.frame = frame
        self.error = error


def read_frame(data: bytes | None, *, max_items: int) -> Frame:
    """Parse a text frame, as UTF-8, with at most ``max_items`` values; None is a binary one.

    Raises BadFrame.
    """
    if data is None:
        raise BadFrame("is binary")
    try:
        return _frame_of(parse_strict(data, max_items=max_items))
    except RepeatedKey as error:
        raise _with_repeated_key(error) from None
    except TooManyItems as error:
        raise BadFrame(str(error)) from None
    except ValueError:  # its message may quote the frame
        raise BadFrame("is not valid JSON") from None


def _with_repeated_key(error: RepeatedKey) -> BadFrame:
    """Build the error for a frame with a repeated key.

    It has a ``frame``, and so an answer, only if the repeated key leaves session and request
    certain.
    """
    in_doubt = error.place in (("message",), ("message", "id")) or error.place[0] != "message"
    frame = None if in_doubt else _frame_of(error.value)
    return BadFrame(str(error), frame=frame, error=repeated_key(error))


def _frame_of(envelope: object) -> Frame:
    if not isinstance(envelope, dict) or "message" not in envelope:
        raise BadFrame("is not an object with session_identifier and message")
    session_identifier = envelope.get("session_identifier")
    if not isinstance(session_identifier, str) or not is_identifier(session_identifier):
        raise BadFrame("has no session_identifier of 1-256 characters without control characters")
    return Frame(session_identifier, envelope["message"])


def write_frame(
    session_identifier: str, server_identifier: str, message: Mapping[str, object]
) -> bytes:
    """Write a text frame, as UTF-8."""
    return to_json(
        {
            "session_identifier": session_identifier,
            "target_server_identifier": server_identifier,
            "message": message,
        }
    )


def with_meta(message: object) -> object:
    """Convert ``params.meta`` of seed 002 to MCP's ``params._meta``, whose own keys win."""
    if not isinstance(message, dict) or "method" not in message:
        return message
    params = message.get("params")
    if not isinstance(params, dict) or not isinstance(params.get("meta"), dict):
        return message
    others = {key: value for key, value in params.items() if key != "meta"}
    theirs = params.get("_meta")
    meta = {**params["meta"], **(theirs if isinstance(theirs, dict) else {})}
    return {**message, "params": {**others, "_meta": meta}}
