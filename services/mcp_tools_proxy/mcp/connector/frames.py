"""Parses and writes the envelope of the connector's messages (seed 002, W-02, W-03).

Incoming: ``{"session_identifier", "message"}``; outgoing frames add ``target_server_identifier``.
``message`` is MCP's JSON-RPC; both MCP's spelling and that of seed 002 are read (W-09). Each
message is logged as one line of names and keys, never values (W-15 … W-18, A.6). Its texts are
printable; texts and lists are truncated, so the line is short for any message.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice

from pydantic_core import to_json

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.content_blocks import with_type
from mcp_tools_proxy.wire.identifiers import is_identifier
from mcp_tools_proxy.wire.strict_json import RepeatedKey, TooManyItems, parse_strict, repeated_key
from mcp_tools_proxy.wire.uris import redact_quoted, redact_uri


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of the backend: a message, any JSON value, for one of its sessions."""

    session_identifier: str
    message: object


class BadFrame(Exception):
    """A frame to ignore; the message is one line and quotes nothing of the frame.

    ``frame`` is set if its session and its request are certain, so that ``error`` can be sent as
    the answer.
    """

    def __init__(
        self, reason: str, *, frame: Frame | None = None, error: InvalidRequest | None = None
    ) -> None:
        super().__init__(reason)
        self.frame = frame
        self.error = error


def read_frame(data: bytes | None, *, max_items: int) -> Frame:
    """Parse a UTF-8 text frame with at most ``max_items`` values; None is a binary frame.

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
    except ValueError:  # its message can quote the frame
        raise BadFrame("is not valid JSON") from None


def _with_repeated_key(error: RepeatedKey) -> BadFrame:
    """Build the error for a frame with a repeated key.

    It has a ``frame``, and thus an answer, only if session and request are certain.
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
    """Return a text frame, as UTF-8."""
    return to_json(
        {
            "session_identifier": session_identifier,
            "target_server_identifier": server_identifier,
            "message": message,
        }
    )


def with_meta(message: object) -> object:
    """Convert ``params.meta`` of seed 002 to MCP's ``params._meta``, which takes precedence."""
    if not isinstance(message, dict) or "method" not in message:
        return message
    params = message.get("params")
    if not isinstance(params, dict) or not isinstance(params.get("meta"), dict):
        return message
    others = {key: value for key, value in params.items() if key != "meta"}
    theirs = params.get("_meta")
    meta = {**params["meta"], **(theirs if isinstance(theirs, dict) else {})}
    return {**message, "params": {**others, "_meta": meta}}


MAX_NAMES = 5
MAX_PARAMS = 20
MAX_NAME_CHARS = 80
MAX_TYPE_CHARS = 32
MAX_ID_CHARS = 64
MAX_ERROR_CHARS = 120

_MAX_READ = 1000  # items of a list, characters of a text; the rest is not read
_ID_LIMIT = 2**64  # far below the size of number that Python refuses to print

Json = dict[str, object]


def summarize(message: object) -> str:
    """Return a summary of a parsed message of either direction and any shape. Never raises.

    ``type= id= method= params=<keys> params{…} result{…} has_result=true error=<message>``, without
    empty parts; at most 8,000 characters.
    """
    if not isinstance(message, dict):
        return "payload=non-object"
    error = _error_text(message) if "error" in message else ""
    parts = [
        f"type={_message_type(message, error)}",
        _labelled("id", _message_id(message.get("id"))),
    ]
    if "method" in message:
        parts.append(_labelled("method", _printable(message["method"])))
    if params := _as_object(message.get("params")):
        parts.append(_labelled("params", _join_names(params, MAX_PARAMS)))
        parts.append(_in_braces("params", _summarize_params(params)))
    if "result" in message:
        parts.append(_in_braces("result", _summarize_result(_as_object(message["result"]))))
        parts.append("has_result=true")
    parts.append(_labelled("error", error))
    return " ".join(filter(None, parts))


def _message_type(message: Json, error: str) -> str:
    if isinstance(message.get("method"), str):
        return "notification" if message.get("id") is None else "request"
    if "result" in message:
        return "response"
    return "error" if error else "message"


def _message_id(identifier: object) -> str:
    match identifier:
        case bool():
            return ""
        case int() | float() if -_ID_LIMIT < identifier < _ID_LIMIT:
            return str(identifier)
    return _printable(identifier, MAX_ID_CHARS)


def _error_text(message: Json) -> str:
    """Return the error's message without quoted parts, which can be values."""
    message_text = _as_object(message.get("error")).get("message")
    if not isinstance(message_text, str):
        return ""
    return _printable(redact_quoted(message_text[:_MAX_READ]), MAX_ERROR_CHARS)


def _summarize_params(params: Json) -> Iterable[str]:
    return (
        _labelled("target", _target(params)),
        _labelled("args", _keys_of(params, "arguments")),
        _labelled("meta", _join_names(_meta_of(params))),
    )


def _target(params: Json) -> str:
    name = _printable(params.get("name"))
    return name or _uri_or_name(params) or _uri_or_name(_as_object(params.get("ref")))


def _summarize_result(result: Json) -> Iterator[str]:
    for field, (label, details) in _RESULT_LISTS.items():
        items = result.get(field)
        if isinstance(items, list | tuple):  # our own lists are shared and immutable
            yield f"{label}={len(items)}"
            yield from details([_as_object(item) for item in items[:_MAX_READ]])
    structured = _keys_of(result, "structuredContent") or _keys_of(result, "structured_content")
    yield _labelled("structured_keys", structured)
    yield _labelled("meta_keys", _join_names(_meta_of(result)))
    is_error = _bool_text(result.get("isError")) or _bool_text(result.get("is_error"))
    yield _labelled("is_error", is_error)


def _summarize_tools(tools: list[Json]) -> Iterable[str]:
    return (
        *_summarize_items("tool_names", tools),
        _labelled("input_schema_fields", _schema_fields(tools, "inputSchema", "input_schema")),
        _labelled("output_schema_fields", _schema_fields(tools, "outputSchema", "output_schema")),
    )


def _summarize_items(label: str, items: list[Json]) -> Iterable[str]:
    return (_labelled(label, _join_first(map(_uri_or_name, items))),)


def _summarize_content(blocks: list[Json]) -> Iterable[str]:
    return (_labelled("content_types", _join_first(dict.fromkeys(map(_block_type, blocks)))),)


def _summarize_messages(messages: list[Json]) -> Iterable[str]:
    return _summarize_content([_as_object(message.get("content")) for message in messages])


_RESULT_LISTS: dict[str, tuple[str, Callable[[list[Json]], Iterable[str]]]] = {
    "tools": ("tools", _summarize_tools),
    "prompts": ("prompts", partial(_summarize_items, "prompt_names")),
    "resources": ("resources", partial(_summarize_items, "resource_keys")),
    "resourceTemplates": (
        "resource_templates",
        partial(_summarize_items, "resource_template_keys"),
    ),
    "resource_templates": (
        "resource_templates",
        partial(_summarize_items, "resource_template_keys"),
    ),
    "messages": ("messages", _summarize_messages),
    "contents": ("contents", partial(_summarize_items, "resource_keys")),
    "content": ("content", _summarize_content),
}


def _schema_fields(tools: list[Json], *spellings: str) -> str:
    """Return the fields of the first schema that has fields."""
    schemas = (_as_object(tool.get(spelling)) for tool in tools for spelling in spellings)
    fields = (_keys_of(schema, "properties") for schema in schemas)
    return next(filter(None, fields), "")


def _block_type(block: Json) -> str:
    kind = block.get("type") or _as_object(with_type(block)).get("type")
    if not isinstance(kind, str) or len(kind) > MAX_TYPE_CHARS:
        return ""
    return kind if kind.isascii() and kind.isidentifier() else ""


def _uri_or_name(holder: Json) -> str:
    """Return the URI or URI template without parts that can be values, or the name."""
    for key in ("uri", "uriTemplate", "uri_template"):
        if isinstance(uri := holder.get(key), str):
            return _printable(redact_uri(uri[:_MAX_READ]))
    return _printable(holder.get("name"))


def _keys_of(holder: Json, field: str) -> str:
    return _join_names(_as_object(holder.get(field)))


def _meta_of(holder: Json) -> Json:
    meta = _as_object(holder.get("_meta"))
    return _as_object(holder["meta"]) | meta if "meta" in holder else meta


def _as_object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _bool_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else ""


def _join_first(names: Iterable[str]) -> str:
    return _join_names(list(islice(filter(None, names), MAX_NAMES + 1)))


def _join_names(names: Collection[str], most: int = MAX_NAMES) -> str:
    if len(names) <= most:
        listed = ",".join(names)
        is_short = len(listed) <= MAX_NAME_CHARS or max(map(len, names)) <= MAX_NAME_CHARS
        if is_short and listed.isprintable():
            return listed
    listed = ",".join(map(_printable, islice(names, most)))
    return f"{listed},..." if len(names) > most else listed


def _printable(value: object, most: int = MAX_NAME_CHARS) -> str:
    """Return a string as one printable line of at most ``most`` characters; "" for other types."""
    if not isinstance(value, str):
        return ""
    text = value if len(value) <= most else f"{value[: most - 1]}…"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in text)


def _in_braces(label: str, parts: Iterable[str]) -> str:
    inside = ", ".join(filter(None, parts))
    return f"{label}{{{inside}}}" if inside else ""


def _labelled(label: str, text: str) -> str:
    return f"{label}={text}" if text else ""
