"""The envelope around every message: pure reading and writing (seed 002, W-02, W-03).

In: ``{"session_identifier", "message"}``; out, ``target_server_identifier`` as well. ``message`` is
JSON-RPC as MCP has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic_core import to_json

from mcp_tools_proxy.policy.identifiers import is_identifier
from mcp_tools_proxy.policy.strict_json import parse_strict


class BadFrame(Exception):
    """A frame that is no envelope; the message is one line, without a word of the frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What the backend sent: a message, as JSON of any kind, for one of its sessions."""

    session_identifier: str
    message: object


def read_frame(data: bytes | None) -> Frame:
    """Read a text frame, as UTF-8; None is a binary one. Raises BadFrame."""
    if data is None:
        raise BadFrame("is binary")
    try:
        envelope = parse_strict(data)
    except ValueError:  # what it says may quote the frame
        raise BadFrame("is not valid JSON") from None
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
    """Spell ``params.meta`` of seed 002 as MCP does; what is spelt so already comes first."""
    if not isinstance(message, dict) or "method" not in message:
        return message
    params = message.get("params")
    if not isinstance(params, dict) or not isinstance(params.get("meta"), dict):
        return message
    others = {key: value for key, value in params.items() if key != "meta"}
    theirs = params.get("_meta")
    meta = {**params["meta"], **(theirs if isinstance(theirs, dict) else {})}
    return {**message, "params": {**others, "_meta": meta}}
