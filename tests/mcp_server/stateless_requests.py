"""Valid and invalid requests of MCP 2026-07-28, as data; their answers are recorded."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.support.configuration import Json
from tests.support.relay_samples import FORM

MODERN = "2026-07-28"
TOOLS = ("echo", "undecodable", "error", "is_error", "sleep", "progress", "notify", "input")
PREFIX = "io.modelcontextprotocol/"
VERSION, CAPABILITIES, CLIENT, LEVEL = (
    f"{PREFIX}{key}" for key in ("protocolVersion", "clientCapabilities", "clientInfo", "logLevel")
)
ENVELOPE: Json = {VERSION: MODERN, CAPABILITIES: {}}
TRACEPARENT = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
"""The same trace id for every run."""


def _mirrored(name: str, properties: Json) -> Json:
    """Describe a tool whose arguments are repeated in headers."""
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


EXTRA: Mapping[str, list[Any]] = {
    "tools": [
        _mirrored(
            "mirrored",
            {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "count": {"type": "integer", "x-mcp-header": "Count"},
                "where": {
                    "type": "object",
                    "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}},
                },
            },
        ),
        _mirrored("misdeclared", {"rate": {"type": "number", "x-mcp-header": "Rate"}}),
    ]
}
"""Tools of the raw server with header parameters."""

QUESTION: Json = {"questions": {"q": FORM}}
NULLS: Json = {
    "content": [{"type": "text", "text": "é", "new": None}],
    "structuredContent": {"a": None, "b": [None, {"c": None}]},
    "new": None,
    "_meta": {"x": None},
}
LINE: Json = {"method": "notifications/message", "params": {"level": "info", "data": None}}
BOTH_WANTED: Json = {LEVEL: "debug", "progressToken": "mine"}

Request = tuple[str, Json]
"""A method and its parameters; the envelope is added."""


def call(tool: object, arguments: object = None, **more: Any) -> Request:
    return "tools/call", {"name": tool, "arguments": arguments or {}, **more}


def listing(**meta: Any) -> Request:
    return "tools/list", {"_meta": meta}


REQUESTS: dict[str, Request] = {
    "tools": ("tools/list", {}),
    "prompts": ("prompts/list", {}),
    "resources": ("resources/list", {}),
    "templates": ("resources/templates/list", {}),
    "a cursor": ("tools/list", {"cursor": "x"}),
    "a cursor that is null": ("tools/list", {"cursor": None}),
    "a result": call("s1:echo", {"text": "é", "nothing": None}),
    "a result with nulls": call("s1:undecodable", {"result": NULLS}),
    "no result": call("s1:undecodable"),
    "a server's error": call("s1:error", {"code": -32602, "message": "no"}),
    "a failed tool": call("s1:is_error"),
    "a local tool": call("read_doc_metadata", {"doc_id": "doc_1"}),
    "a local tool's arguments": call("read_doc_metadata", {"doc_id": True}),
    "a document that is not there": call("read_doc_metadata", {"doc_id": "x"}),
    "an unknown tool": call("s1:nope"),
    "a tool without a name": ("tools/call", {"arguments": {}}),
    "a name that is a number": call(7),
    "arguments that are null": ("tools/call", {"name": "s1:echo", "arguments": None}),
    "arguments that are a list": ("tools/call", {"name": "s1:echo", "arguments": [1]}),
    "answers that are a list": call("s1:echo", inputResponses=[1]),
    "a state that is a number": call("s1:echo", requestState=1),
    "unrequested answers": call("s1:echo", inputResponses={}, requestState="x"),
    "a prompt": ("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}}),
    "an unknown prompt": ("prompts/get", {"name": "nope"}),
    "a prompt without a name": ("prompts/get", {}),
    "a resource": ("resources/read", {"uri": "raw://text"}),
    "an unknown resource": ("resources/read", {"uri": "raw://nope"}),
    "a resource whose uri is null": ("resources/read", {"uri": None}),
    "completion": (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "name", "value": "A"},
        },
    ),
    "completion of nothing": ("completion/complete", {"ref": {}}),
    "capabilities that are a number": listing(**{CAPABILITIES: 5}),
    "capabilities that are null": listing(**{CAPABILITIES: None}),
    "a client that is a number": listing(**{CLIENT: 5}),
    "a question to a client that declared nothing": call("s1:input", QUESTION),
    "a question to a client that can be asked": call(
        "s1:input", QUESTION, _meta={CAPABILITIES: {"elicitation": {"form": {}}}}
    ),
    "a question to a client that declared garbage": call(
        "s1:input", QUESTION, _meta={CAPABILITIES: {"elicitation": 5}}
    ),
    "an invalid trace": listing(traceparent=7),
    "progress": call("s1:progress", _meta=BOTH_WANTED),
    "progress under the token 0": call("s1:progress", _meta={"progressToken": 0}),
    "progress under no token": call("s1:progress", _meta={"progressToken": True}),
    "a log message": call("s1:notify", {"messages": [LINE]}, _meta=BOTH_WANTED),
    "an unwanted log message": call("s1:notify", {"messages": [LINE]}),
    "a log message of a level too low": call(
        "s1:notify", {"messages": [LINE]}, _meta={LEVEL: "warning"}
    ),
    "log messages of an unknown level": call("s1:notify", {"messages": [LINE]}, _meta={LEVEL: [1]}),
    "a result where progress was wanted": call("s1:echo", {"text": "é"}, _meta=BOTH_WANTED),
    "an error where progress was wanted": call(7, _meta=BOTH_WANTED),
    "a failed tool where progress was wanted": call("s1:is_error", _meta=BOTH_WANTED),
    "a list where log messages were wanted": listing(**BOTH_WANTED),
    "discovery": ("server/discover", {}),
    "discovery with a parameter": ("server/discover", {"unknown": 1}),
    "discovery where progress is wanted": ("server/discover", {"_meta": BOTH_WANTED}),
    "discovery by a client that is a number": ("server/discover", {"_meta": {CLIENT: 5}}),
    "discovery with capabilities that are a number": (
        "server/discover",
        {"_meta": {CAPABILITIES: 5}},
    ),
    "discovery with an unknown log level": ("server/discover", {"_meta": {LEVEL: "x"}}),
    "discovery with a token that is a list": ("server/discover", {"_meta": {"progressToken": []}}),
    "a stream of nothing named": ("subscriptions/listen", {}),
    "a stream of a list": ("subscriptions/listen", {"notifications": []}),
    "a stream of a flag that is a list": (
        "subscriptions/listen",
        {"notifications": {"toolsListChanged": [1]}},
    ),
    "a stream of resources that are a number": (
        "subscriptions/listen",
        {"notifications": {"resourceSubscriptions": 5}},
    ),
    "a stream for a client that is a number": (
        "subscriptions/listen",
        {"notifications": {}, "_meta": {CLIENT: 5}},
    ),
    "an unknown method": ("nope/nope", {}),
    "an unknown method where progress is wanted": ("nope/nope", {"_meta": BOTH_WANTED}),
    "a method without letters": ("", {}),
    "a ping": ("ping", {}),
    "initialize": ("initialize", {"protocolVersion": "2025-11-25"}),
    "initialize without a version": ("initialize", {}),
    "a log level": ("logging/setLevel", {"level": "debug"}),
    "a subscription": ("resources/subscribe", {"uri": "raw://text"}),
    "a task": ("tasks/get", {"taskId": "x"}),
    "a notification with an id": ("notifications/cancelled", {"requestId": 1}),
}
"""Sent over HTTP and by the connector."""


def message_of(request: Request) -> Json:
    method, params = request
    meta = {**ENVELOPE, **TRACEPARENT, **params.get("_meta", {})}
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": meta}}


class Post(NamedTuple):
    """One HTTP request to ``/mcp``."""

    headers: tuple[tuple[str, str], ...]
    body: bytes
    method: str = "POST"


ACCEPT = "application/json, text/event-stream"


def post(
    message: object,
    *more: tuple[str, str],
    without: Iterable[str] = (),
    method: str = "POST",
    **replaced: str,
) -> Post:
    """Build a POST with the headers that its message needs.

    ``without`` omits headers, ``replaced`` changes values (``_`` for ``-``), ``more`` are added.
    """
    found = message if isinstance(message, dict) else {}
    params = found.get("params")
    key = "uri" if found.get("method") == "resources/read" else "name"
    name = params.get(key) if isinstance(params, dict) else None
    headers = {
        "accept": ACCEPT,
        "content-type": "application/json",
        "mcp-protocol-version": MODERN,
        "mcp-method": str(found.get("method", "")),
        **({} if name is None else {"mcp-name": str(name)}),
        **{name.replace("_", "-"): value for name, value in replaced.items()},
    }
    kept = [(name, value) for name, value in headers.items() if name not in without]
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return Post((*kept, *more), body, method)


LIST = message_of(("tools/list", {}))
ECHO = message_of(call("s1:echo", {"text": "x"}))
TALK = message_of(call("s1:progress", _meta=BOTH_WANTED))
STREAM = message_of(("subscriptions/listen", {"notifications": []}))
NOTIFICATION: Json = {"jsonrpc": "2.0", "method": "notifications/cancelled"}

KINDS = {
    "plain": LIST,
    "wanting progress": TALK,
    "of a stream": STREAM,
    "notification": NOTIFICATION,
}


def _meta(*left_out: str, **more: Any) -> Json:
    meta = {key: value for key, value in ENVELOPE.items() if key not in left_out} | more
    return {**LIST, "params": {"_meta": meta}}


def _mirror(
    arguments: object, *headers: tuple[str, str], tool: str = "mirrored", **meta: Any
) -> Post:
    params = {"name": f"s1:{tool}", "arguments": arguments, "_meta": meta}
    return post(message_of(("tools/call", params)), *headers)


BAD_TYPES = {
    "missing": None,
    "text": "text/plain",
    "with a charset": "Application/JSON; charset=utf-8",
    "longer": "application/json-patch+json",
}
ACCEPTED = {
    "missing": None,
    "empty": "",
    "JSON": "application/json",
    "events": "text/event-stream",
    "all": "*/*",
    "all applications": "application/*",
    "all texts": "text/*",
    "weighted": "application/json;q=0.5 , Text/Event-Stream;q=0",
    "none of these": "text/html",
}
BODIES: dict[str, object] = {
    "batch of none": [],
    "batch": [LIST],
    "number": 5,
    "text": "x",
    "null": None,
    "result": {"jsonrpc": "2.0", "id": 1, "result": {}},
    "error": {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    "no version": {"id": 1, "method": "tools/list"},
    "old version": {**LIST, "jsonrpc": "1.0"},
    "no method": {"jsonrpc": "2.0", "id": 1},
    "method is a number": {**LIST, "method": 5},
    "method is null": {**LIST, "method": None},
    "id is null": {**LIST, "id": None},
    "id is true": {**LIST, "id": True},
    "id is a fraction": {**LIST, "id": 1.5},
    "id is a whole fraction": {**LIST, "id": 1.0},
    "id is a list": {**LIST, "id": [1]},
    "id is text": {**LIST, "id": "é"},
    "id is empty": {**LIST, "id": ""},
    "id is large": {**LIST, "id": 2**70},
    "params are a list": {**LIST, "params": [1]},
    "params are text": {**LIST, "params": "x"},
    "params are null": {**LIST, "params": None},
    "no params": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    "more fields": {**LIST, "more": 1},
    "request with a result": {**LIST, "result": {}},
    "meta is null": {**LIST, "params": {"_meta": None}},
    "meta is a list": {**LIST, "params": {"_meta": []}},
    "no meta": {**LIST, "params": {}},
    "meta without version": _meta(VERSION),
    "meta without capabilities": _meta(CAPABILITIES),
    "empty meta": _meta(VERSION, CAPABILITIES),
    "version is a number": _meta(**{VERSION: 5}),
    "version is null": _meta(**{VERSION: None}),
    "version of a session": _meta(**{VERSION: "2025-11-25"}),
    "notification": NOTIFICATION,
    "notification with params": {**NOTIFICATION, "params": {"requestId": 7}},
    "notification of no version": {"method": "notifications/cancelled"},
    "notification without a method": {"jsonrpc": "2.0"},
    "notification whose params are a list": {**NOTIFICATION, "params": [1]},
    "notification whose params are null": {**NOTIFICATION, "params": None},
    "notification whose method is a number": {**NOTIFICATION, "method": 5},
}
REGION, COUNT, ZONE = "mcp-param-region", "mcp-param-count", "mcp-param-zone"
POSTS: dict[str, Post] = {
    **{f"request: {name}": post(message_of(it)) for name, it in REQUESTS.items()},
    **{f"body: {name}": post(body) for name, body in BODIES.items()},
    **{
        f"content type: {name}, {kind}": post(
            message,
            without=("content-type",) if value is None else (),
            **({} if value is None else {"content_type": value}),
        )
        for name, value in BAD_TYPES.items()
        for kind, message in KINDS.items()
    },
    **{
        f"accept: {name}, {kind}": post(
            message,
            without=("accept",) if value is None else (),
            **({} if value is None else {"accept": value}),
        )
        for name, value in ACCEPTED.items()
        for kind, message in KINDS.items()
    },
    "accept: twice": post(LIST, ("accept", "text/html"), accept="application/json"),
    "content type: twice": post(LIST, ("content-type", "text/plain")),
    "version: unknown": post(_meta(**{VERSION: "2099-01-01"}), mcp_protocol_version="2099-01-01"),
    "version: unknown, in the header alone": post(LIST, mcp_protocol_version="2099-01-01"),
    "version: unknown, in the body alone": post(_meta(**{VERSION: "2099-01-01"})),
    "version: empty": post(LIST, mcp_protocol_version=""),
    "version: unknown, notification": post(NOTIFICATION, mcp_protocol_version="2099-01-01"),
    "version: empty, notification": post(NOTIFICATION, mcp_protocol_version=""),
    "version: with spaces": post(LIST, mcp_protocol_version=f" {MODERN}\t"),
    "version: twice": post(LIST, ("mcp-protocol-version", MODERN)),
    "version: twice, notification": post(NOTIFICATION, ("mcp-protocol-version", MODERN)),
    "version: twice, the second older": post(LIST, ("mcp-protocol-version", "2025-11-25")),
    "method: missing": post(LIST, without=("mcp-method",)),
    "method: another": post(LIST, mcp_method="tools/call"),
    "method: in capitals": post(LIST, mcp_method="Tools/List"),
    "method: with spaces": post(LIST, mcp_method=" tools/list "),
    "method: twice": post(LIST, ("mcp-method", "tools/list")),
    "method: twice, and the version": post(
        LIST, ("mcp-method", "tools/list"), ("mcp-protocol-version", MODERN)
    ),
    "method: another, where progress is wanted": post(TALK, mcp_method="tools/list"),
    "method: another, of a stream": post(STREAM, mcp_method="tools/list"),
    "name: missing": post(ECHO, without=("mcp-name",)),
    "name: another": post(ECHO, mcp_name="s1:sleep"),
    "name: another, of a resource": post(
        message_of(("resources/read", {"uri": "raw://text"})), mcp_name="raw://other"
    ),
    "name: another, of a prompt": post(
        message_of(("prompts/get", {"name": "greet"})), mcp_name="other"
    ),
    "name: not needed": post(LIST, mcp_name="other"),
    "name: with spaces": post(ECHO, mcp_name=" s1:echo "),
    "name: twice": post(ECHO, ("mcp-name", "s1:echo")),
    "name: encoded": post(ECHO, mcp_name="=?base64?czE6ZWNobw==?="),
    "name: encoded badly": post(ECHO, mcp_name="=?base64?%%%?="),
    "name: where progress is wanted": post(TALK, mcp_name="other"),
    "session: a header of one": post(LIST, ("mcp-session-id", "none")),
    "parameter: equal": _mirror({"region": "eu"}, (REGION, "eu")),
    "parameter: missing": _mirror({"region": "eu"}),
    "parameter: another": _mirror({"region": "eu"}, (REGION, "us")),
    "parameter: in capitals": _mirror({"region": "eu"}, ("Mcp-Param-Region", "eu")),
    "parameter: with spaces": _mirror({"region": "eu"}, (REGION, " eu ")),
    "parameter: twice": _mirror({"region": "eu"}, (REGION, "eu"), (REGION, "eu")),
    "parameter: encoded": _mirror({"region": "é"}, (REGION, "=?base64?w6k=?=")),
    "parameter: encoded badly": _mirror({"region": "é"}, (REGION, "=?base64?%%?=")),
    "parameter: whole number": _mirror({"count": 42}, (COUNT, "42.0")),
    "parameter: another number": _mirror({"count": 42}, (COUNT, "42.5")),
    "parameter: nested": _mirror({"where": {"zone": "a"}}, (ZONE, "a")),
    "parameter: nested, missing": _mirror({"where": {"zone": "a"}}),
    "parameter: without an argument": _mirror({}, (REGION, "eu")),
    "parameter: of null": _mirror({"region": None}, (REGION, "eu")),
    "parameter: null": _mirror({"region": None}),
    "parameter: none of any": _mirror({}),
    "parameter: no arguments": _mirror(None, (REGION, "eu")),
    "parameter: arguments in a list": _mirror([1], (REGION, "eu")),
    "parameter: a value that is a list": _mirror({"region": [1]}, (REGION, "1")),
    "parameter: unknown": _mirror({"region": "eu"}, (REGION, "eu"), ("mcp-param-x", "1")),
    "parameter: of another tool": _mirror({"text": "x"}, (REGION, "eu"), tool="echo"),
    "parameter: of an unknown tool": _mirror({"a": 1}, (REGION, "eu"), tool="nope"),
    "parameter: of a tool declared badly": _mirror({"rate": 1}, tool="misdeclared"),
    "parameter: missing, where progress is wanted": _mirror({"region": "eu"}, **BOTH_WANTED),
    "parameter: equal, where progress is wanted": _mirror(
        {"region": "eu"}, (REGION, "eu"), **BOTH_WANTED
    ),
    "parameter: of a list": post(LIST, (REGION, "eu")),
    "verb: GET": post(b"", method="GET"),
    "verb: DELETE": post(b"", method="DELETE"),
    "verb: PUT": post(LIST, method="PUT"),
    "verb: HEAD": post(b"", method="HEAD"),
    "verb: GET of an unknown version": post(b"", method="GET", mcp_protocol_version="2099-01-01"),
}
"""Sent over HTTP."""
