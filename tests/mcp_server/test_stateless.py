"""Plain requests, which are answered past the SDK: as it would have answered them."""

import json
from typing import Any

import pytest

from tests.connector.backend_link import begun, linked_to_one
from tests.support.configuration import Json
from tests.support.mcp_endpoint import BOTH, ENVELOPE, MODERN, TENANT
from tests.support.raw_mcp_client import CAPABILITIES, in_front_of_one
from tests.support.relay_samples import FORM
from tests.support.remote_backend.session import Session

TOOLS = ("echo", "undecodable", "error", "is_error", "sleep", "progress", "say", "input")
TRACEPARENT = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
"""What gives both answers the same trace id."""
THE_SDK_S = {"Mcp-Param-Nothing": "x"}
"""A header that mirrors an argument: the SDK checks it."""
SPOKEN: Json = {"io.modelcontextprotocol/logLevel": "debug", "progressToken": "mine"}

NULLS: Json = {
    "content": [{"type": "text", "text": "é", "new": None}],
    "structuredContent": {"a": None, "b": [None, {"c": None}]},
    "new": None,
    "_meta": {"x": None},
}
LINE: Json = {"method": "notifications/message", "params": {"level": "info", "data": None}}

QUESTION: Json = {"questions": {"q": FORM}}

Case = tuple[str, Json]


def call(tool: object, arguments: object = None, **more: Any) -> Case:
    return "tools/call", {"name": tool, "arguments": arguments or {}, **more}


def listing(**meta: Any) -> Case:
    return "tools/list", {"_meta": meta}


CASES: dict[str, Case] = {
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
    "a local tool's arguments": call("read_doc_metadata", {"doc_id": 5}),
    "a document that is not there": call("read_doc_metadata", {"doc_id": "x"}),
    "a tool that nobody has": call("s1:nope"),
    "a tool without a name": ("tools/call", {"arguments": {}}),
    "a name that is a number": call(7),
    "arguments that are null": ("tools/call", {"name": "s1:echo", "arguments": None}),
    "arguments that are a list": ("tools/call", {"name": "s1:echo", "arguments": [1]}),
    "answers that are a list": call("s1:echo", inputResponses=[1]),
    "a state that is a number": call("s1:echo", requestState=1),
    "answers that nobody asked for": call("s1:echo", inputResponses={}, requestState="x"),
    "a prompt": ("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}}),
    "a prompt that nobody has": ("prompts/get", {"name": "nope"}),
    "a prompt without a name": ("prompts/get", {}),
    "a resource": ("resources/read", {"uri": "raw://text"}),
    "a resource that nobody has": ("resources/read", {"uri": "raw://nope"}),
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
    "a client that is a number": listing(**{"io.modelcontextprotocol/clientInfo": 5}),
    "a question to who declared nothing": call("s1:input", QUESTION),
    "a question to who can be asked": call(
        "s1:input", QUESTION, _meta={CAPABILITIES: {"elicitation": {"form": {}}}}
    ),
    "a question to who declared garbage": call(
        "s1:input", QUESTION, _meta={CAPABILITIES: {"elicitation": 5}}
    ),
    "a trace that is none": listing(traceparent=7),
}
TALK: dict[str, Case] = {
    "progress": call("s1:progress", _meta=SPOKEN),
    "progress under the token 0": call("s1:progress", _meta={"progressToken": 0}),
    "progress under no token": call("s1:progress", _meta={"progressToken": True}),
    "a log line": call("s1:say", {"messages": [LINE]}, _meta=SPOKEN),
    "a log line that nobody wants": call("s1:say", {"messages": [LINE]}),
    "a log line of a level too low": call(
        "s1:say",
        {"messages": [LINE]},
        _meta={"io.modelcontextprotocol/logLevel": "warning"},
    ),
    "log lines of a level that there is not": call(
        "s1:say", {"messages": [LINE]}, _meta={"io.modelcontextprotocol/logLevel": [1]}
    ),
}


def request_of(case: Case) -> Json:
    method, params = case
    meta = {**ENVELOPE, **TRACEPARENT, **params.get("_meta", {})}
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": meta}}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_plain_post_is_answered_as_by_the_sdk(case: Case) -> None:
    body = request_of(case)
    name = case[1].get("uri" if case[0] == "resources/read" else "name")
    headers = {**BOTH, **TENANT, "MCP-Protocol-Version": MODERN, "Mcp-Method": case[0]}
    headers |= {"X-Trace-Id": "t"} | ({"Mcp-Name": str(name)} if name is not None else {})
    async with in_front_of_one(TOOLS) as (served, _):
        ours, theirs = [
            await served.http.post("/mcp", json=body, headers=headers | more)
            for more in ({}, THE_SDK_S)
        ]
    assert ours.status_code == theirs.status_code
    assert ours.json() == theirs.json()
    assert ours.headers.keys() == theirs.headers.keys()
    assert ours.headers["content-type"] == theirs.headers["content-type"]


async def said_in(session: Session, case: Case) -> list[Json]:
    """Give all that is said until the answer, and the answer."""
    await session.send(request_of(case))
    said = [await session.receive()]
    while said[-1].get("id") != 7:
        said.append(await session.receive())
    return said


@pytest.mark.parametrize("case", [*CASES.values(), *TALK.values()], ids=[*CASES, *TALK])
async def test_a_plain_request_of_a_session_is_answered_as_by_the_sdk(case: Case) -> None:
    """The first request of a session goes the SDK's way."""
    async with linked_to_one(*TOOLS, raw={"sse": True}) as (_, backend, _):
        ours = await said_in(await begun(backend), case)
        theirs = await said_in(backend.session(), case)
    assert ours == theirs


WORDS = {"text": '"progressToken" and io.modelcontextprotocol/logLevel', "progressToken": 1}
DEBUG = {"io.modelcontextprotocol/logLevel": "debug"}


async def replied(case: Case, accept: str) -> list[str]:
    """Post a request, also with a letter of each key escaped; give the replies in short."""
    method, params = case
    headers = {**TENANT, "Accept": accept, "Content-Type": "application/json"}
    headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Mcp-Name": params["name"]}
    body = json.dumps(request_of(case))
    escaped = body.replace("Token", "\\u0054oken").replace("logLevel", "log\\u004cevel")
    async with in_front_of_one(("echo", "progress", "say"), sse=True) as (served, _):
        replies = [
            await served.http.post("/mcp", content=content, headers=headers)
            for content in (body, escaped)
        ]
    return [f"{it.status_code} {it.headers['content-type'].partition(';')[0]}" for it in replies]


@pytest.mark.parametrize(
    "case", [call("s1:echo", WORDS), call("s1:echo", _meta={"com.example/logLevel": "debug"})]
)
async def test_words_of_a_request_make_its_reply_no_stream(case: Case) -> None:
    assert await replied(case, "application/json") == ["200 application/json"] * 2


@pytest.mark.parametrize(
    "case",
    [
        call("s1:progress", _meta={"progressToken": 1}),
        call("s1:say", {"messages": [LINE]}, _meta=DEBUG),
    ],
)
async def test_a_request_that_asks_for_what_comes_before_its_result_gets_it(case: Case) -> None:
    assert await replied(case, BOTH["Accept"]) == ["200 text/event-stream"] * 2
