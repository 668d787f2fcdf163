"""One event as one line of JSON: timestamp, level, event, payload, trace_id (contract §7)."""

import json
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

from pydantic_core import PydanticSerializationError, to_json
from structlog.processors import format_exc_info
from structlog.typing import EventDict, WrappedLogger

from mcp_tools_proxy.wire.text import printable

_WORD = re.compile(r"[!#-<>-~]+")
"""Printable ASCII without spaces, quotation marks and equals signs."""

_LEVEL_OF_METHOD = {"warning": "warn", "exception": "error"}

_encode_ascii = json.JSONEncoder(default=str, separators=(",", ":")).encode


class RenderedLine(str):
    """A complete line, passed as a logger's event and written unchanged."""

    __slots__ = ()


def render_line(logger: WrappedLogger, method: str, event: EventDict) -> str:
    """Render an event as JSON; all its fields except ``trace_id`` form the payload."""
    name = event.pop("event", "")
    if isinstance(name, RenderedLine):
        return name
    if "exc_info" in event:
        event = format_exc_info(logger, method, event)
    trace_id = event.pop("trace_id", None)
    return to_ascii_json(line_of(timestamp(), method, name, event, trace_id))


def render_for_people(logger: WrappedLogger, method: str, event: EventDict) -> str:
    """Render an event for a terminal: time, level, name, then the fields; a traceback below.

    Based on the line of JSON, so texts are escaped in the same way.
    """
    line = json.loads(render_line(logger, method, event))
    fields = dict(line["payload"])
    if line["trace_id"] is not None:
        fields["trace_id"] = line["trace_id"]
    traceback = str(fields.pop("exception", ""))
    shown = "".join(f" {name}={_shown(value)}" for name, value in fields.items())
    at = datetime.fromisoformat(line["timestamp"]).astimezone()
    head = f"{at:%H:%M:%S} {line['level']:<5} {line['event']}{shown}"
    return "\n".join([head, *(f"  {printable(it)}" for it in traceback.splitlines())])


def _shown(value: object) -> str:
    """Return a field's value: a plain word unchanged, other values as JSON."""
    if isinstance(value, str) and _WORD.fullmatch(value):
        return value
    return printable(json.dumps(value))


def line_of(
    at: str, method: str, event: str, payload: Mapping[str, object], trace_id: str | None
) -> dict[str, object]:
    """Return the fields of a line in order; ``method`` is a logger's method."""
    return {
        "timestamp": at,
        "level": _LEVEL_OF_METHOD.get(method, method),
        "event": event,
        "payload": payload,
        "trace_id": trace_id,
    }


def timestamp() -> str:
    """Return the current time in the format of lines: UTC, with microseconds."""
    second, fraction_ns = divmod(time.time_ns(), 10**9)
    return f"{_format_second(second)}.{fraction_ns // 1000:06}Z"


@lru_cache(maxsize=1)
def _format_second(second: int) -> str:
    """Format a Unix time; cached, because most lines share the second of the previous line."""
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"


def to_ascii_json(line: Mapping[str, object]) -> str:
    """Encode a line to ASCII, so that a caller's text cannot break a line or hide in it.

    For most lines, which are ASCII, a faster encoder gives the same result.
    """
    try:
        data = to_json(line, fallback=str)
    except PydanticSerializationError:  # a lone surrogate, e.g. from a file's name
        return _encode_ascii(line)
    return data.decode() if data.isascii() else _encode_ascii(line)
