"""A JSON-RPC message in one line, for the log: names and keys, never values (W-15 … W-18, A.6).

Every text is cut and of printable characters alone, and every list is cut: whatever the message is,
its line is one line and a short one. MCP's spelling and seed 002's are read alike (W-09).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import islice

from mcp_tools_proxy.wire.content_blocks import with_type

MOST_NAMES = 5
MOST_PARAMS = 20
NAME_CHARS = 80
TYPE_CHARS = 32
ID_CHARS = 64
ERROR_CHARS = 120

_MOST_READ = 1000  # items of a list, characters of a text: the rest costs no time
_ABOVE_IDS = 2**64  # and far below the numbers that Python refuses to spell

_VALUES_IN_URI = re.compile(
    r"(?<=://)(?:[^/?#]*@|[^/?#]{256,})"  # user and password; a host has 253 characters at most
    r"|(?<=^data:).*|\{?[?#].*",
    re.DOTALL | re.IGNORECASE,
)
_QUOTED = re.compile(
    "|".join(  # what has no end, or one that may be escaped, is hidden with all that follows
        (
            *(
                rf"{opening}(?:[^{closing}]*(?<!\\)[{closing}]|.*)"
                for opening, closing in ('""', "``", "“”", "„“", "«»")
            ),
            r"(?:(?<!\w)|(?<=\b[bfru]))['‘](?:.*?(?<!\\)['’](?!\w)|.*)",  # not within a word
        )
    ),
    re.DOTALL,
)

Json = dict[str, object]


def summarize(message: object) -> str:
    """Return a summary of a parsed message, of either direction and of any shape. Never raises.

    ``type= id= method= params=<keys> params{…} result{…} has_result=true error=<message>``, without
    the parts that would be empty; at most 8,000 characters.
    """
    if not isinstance(message, dict):
        return "payload=non-object"
    error = _error(message) if "error" in message else ""
    parts = [f"type={_type(message, error)}", _pair("id", _identifier(message.get("id")))]
    if "method" in message:
        parts.append(_pair("method", _text(message["method"])))
    if params := _object(message.get("params")):
        parts.append(_pair("params", _listed(params, MOST_PARAMS)))
        parts.append(_braced("params", _of_params(params)))
    if "result" in message:
        parts.append(_braced("result", _of_result(_object(message["result"]))))
        parts.append("has_result=true")
    parts.append(_pair("error", error))
    return " ".join(filter(None, parts))


def _type(message: Json, error: str) -> str:
    if isinstance(message.get("method"), str):
        return "notification" if message.get("id") is None else "request"
    if "result" in message:
        return "response"
    return "error" if error else "message"


def _identifier(identifier: object) -> str:
    match identifier:
        case bool():
            return ""
        case int() | float() if -_ABOVE_IDS < identifier < _ABOVE_IDS:
            return str(identifier)
    return _text(identifier, ID_CHARS)


def _error(message: Json) -> str:
    """Return the error's message without quoted parts, which may be values."""
    message_text = _object(message.get("error")).get("message")
    if not isinstance(message_text, str):
        return ""
    return _text(_QUOTED.sub('"…"', message_text[:_MOST_READ]), ERROR_CHARS)


def _of_params(params: Json) -> Iterable[str]:
    return (
        _pair("target", _target(params)),
        _pair("args", _keys(params, "arguments")),
        _pair("meta", _listed(_meta(params))),
    )


def _target(params: Json) -> str:
    return _text(params.get("name")) or _key(params) or _key(_object(params.get("ref")))


def _of_result(result: Json) -> Iterator[str]:
    for field, (label, details) in _LISTS.items():
        items = result.get(field)
        if isinstance(items, list | tuple):  # our own lists are shared, and cannot be changed
            yield f"{label}={len(items)}"
            yield from details([_object(item) for item in items[:_MOST_READ]])
    structured = _keys(result, "structuredContent") or _keys(result, "structured_content")
    yield _pair("structured_keys", structured)
    yield _pair("meta_keys", _listed(_meta(result)))
    yield _pair("is_error", _flag(result.get("isError")) or _flag(result.get("is_error")))


def _of_tools(tools: list[Json]) -> Iterable[str]:
    return (
        *_of_items("tool_names", tools),
        _pair("input_schema_fields", _fields(tools, "inputSchema", "input_schema")),
        _pair("output_schema_fields", _fields(tools, "outputSchema", "output_schema")),
    )


def _of_items(label: str, items: list[Json]) -> Iterable[str]:
    return (_pair(label, _few(map(_key, items))),)


def _of_content(blocks: list[Json]) -> Iterable[str]:
    return (_pair("content_types", _few(dict.fromkeys(map(_content_type, blocks)))),)


def _of_messages(messages: list[Json]) -> Iterable[str]:
    return _of_content([_object(message.get("content")) for message in messages])


_LISTS: dict[str, tuple[str, Callable[[list[Json]], Iterable[str]]]] = {
    "tools": ("tools", _of_tools),
    "prompts": ("prompts", partial(_of_items, "prompt_names")),
    "resources": ("resources", partial(_of_items, "resource_keys")),
    "resourceTemplates": ("resource_templates", partial(_of_items, "resource_template_keys")),
    "resource_templates": ("resource_templates", partial(_of_items, "resource_template_keys")),
    "messages": ("messages", _of_messages),
    "contents": ("contents", partial(_of_items, "resource_keys")),
    "content": ("content", _of_content),
}


def _fields(tools: list[Json], *spellings: str) -> str:
    """Return the fields of the first schema that has any."""
    schemas = (_object(tool.get(spelling)) for tool in tools for spelling in spellings)
    fields = (_keys(schema, "properties") for schema in schemas)
    return next(filter(None, fields), "")


def _content_type(block: Json) -> str:
    kind = block.get("type") or _object(with_type(block)).get("type")
    if not isinstance(kind, str) or len(kind) > TYPE_CHARS:
        return ""
    return kind if kind.isascii() and kind.isidentifier() else ""


def _key(holder: Json) -> str:
    """Return the URI or URI template without parts that may be values; else the name."""
    for key in ("uri", "uriTemplate", "uri_template"):
        if isinstance(uri := holder.get(key), str):
            return _text(_VALUES_IN_URI.sub("", uri[:_MOST_READ]))
    return _text(holder.get("name"))


def _keys(holder: Json, field: str) -> str:
    return _listed(_object(holder.get(field)))


def _meta(holder: Json) -> Json:
    meta = _object(holder.get("_meta"))
    return _object(holder["meta"]) | meta if "meta" in holder else meta


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _flag(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else ""


def _few(names: Iterable[str]) -> str:
    """Return the first non-empty ``names``, separated by commas."""
    return _listed(list(islice(filter(None, names), MOST_NAMES + 1)))


def _listed(names: Collection[str], most: int = MOST_NAMES) -> str:
    if len(names) <= most:
        listed = ",".join(names)
        is_short = len(listed) <= NAME_CHARS or max(map(len, names)) <= NAME_CHARS
        if is_short and listed.isprintable():
            return listed
    listed = ",".join(map(_text, islice(names, most)))
    return f"{listed},..." if len(names) > most else listed


def _text(value: object, most: int = NAME_CHARS) -> str:
    """Return a string as one printable line of at most ``most`` characters; "" for other types."""
    if not isinstance(value, str):
        return ""
    text = value if len(value) <= most else f"{value[: most - 1]}…"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in text)


def _braced(label: str, parts: Iterable[str]) -> str:
    inside = ", ".join(filter(None, parts))
    return f"{label}{{{inside}}}" if inside else ""


def _pair(label: str, text: str) -> str:
    return f"{label}={text}" if text else ""
