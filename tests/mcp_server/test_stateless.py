"""Requests of the newer era are answered as the SDK's server answers them.

The goldens ``stateless_posts.txt`` and ``stateless_sessions.txt`` were recorded with the server of
``mcp`` 2.3. Exceptions: PUT and HEAD are answered like GET and DELETE, and discovery is private,
because its instructions depend on the caller. The version and tool lists are reduced to constant
parts.
"""

import asyncio
import json
from typing import Any

import pytest

from tests.connector.backend_link import begun, linked_to_one
from tests.mcp_server.stateless_requests import (
    EXTRA,
    LINE,
    POSTS,
    REQUESTS,
    TOOLS,
    Post,
    Request,
    call,
    message_of,
    post,
)
from tests.support.bounds import BOUND_S
from tests.support.configuration import Json
from tests.support.golden_answers import check_answers, without_json_rpc
from tests.support.goldens import Golden
from tests.support.mcp_endpoint import BOTH, MODERN, TENANT, Served
from tests.support.raw_mcp_client import in_front_of_one

SERVER_INFO = "io.modelcontextprotocol/serverInfo"


def reduced(value: Any) -> Any:
    """Return a message without the parts that depend on our release, shortened."""
    if isinstance(value, list):
        return [reduced(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = without_json_rpc({key: reduced(item) for key, item in value.items()})
    if isinstance(tools := value.get("tools"), list):
        value["tools"] = [tool["name"] for tool in tools]
    if SERVER_INFO in value:
        value[SERVER_INFO] = f"{value[SERVER_INFO].pop('name')} VERSION"
    return value


async def exchange(served: Served, post: Post) -> bytes:
    """Send a request byte by byte, unlike any HTTP client; return the response."""
    headers = [
        ("host", "127.0.0.1"),
        ("connection", "close"),
        *((name.lower(), value) for name, value in TENANT.items()),
        ("x-trace-id", "t"),
        ("content-length", str(len(post.body))),
        *post.headers,
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    port = int(served.url.rpartition(":")[2])
    async with asyncio.timeout(BOUND_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{post.method} /mcp HTTP/1.1\r\n{head}\r\n".encode("latin-1") + post.body)
        response = await reader.read()
        writer.close()
        await writer.wait_closed()
    return response


def parsed(response: bytes) -> Json:
    """Return the status, the headers and the messages of a response."""
    head, _, body = response.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = sorted(line.split(": ", 1) for line in lines)
    if ["transfer-encoding", "chunked"] in headers:
        body = unchunked(body)
    left_out = ("date", "server", "connection", "content-length")
    answer: Json = {
        "status": int(status.split()[1]),
        "headers": {name: value for name, value in headers if name not in left_out},
        "messages": [],
    }
    kind = dict(headers).get("content-type", "")
    if kind.startswith("text/event-stream"):
        answer["messages"] = events(body)
    elif kind.startswith("application/json"):
        answer["messages"] = [json.loads(body)]
    elif body:
        answer["text"] = body.decode()
    return answer


def unchunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        whole, body = whole + rest[:length], rest[length + 2 :]
    return whole


def events(body: bytes) -> list[Json]:
    """Return the messages of an event stream, which must have exactly the SDK's framing."""
    *frames, rest = body.decode("ascii").split("\r\n\r\n")
    begin = "event: message\r\ndata: "
    assert (rest, [frame for frame in frames if not frame.startswith(begin)]) == ("", [])
    return [json.loads(frame.removeprefix(begin)) for frame in frames]


async def test_posts_are_answered_as_recorded(golden: Golden) -> None:
    tools = (*TOOLS, "mirrored", "misdeclared")
    async with in_front_of_one(tools, extra=EXTRA, sse=True) as (served, _):
        answers = {
            case: reduced(parsed(await exchange(served, post))) for case, post in POSTS.items()
        }
    check_answers(golden, "stateless_posts", answers)


async def test_requests_of_the_connector_are_answered_as_recorded(golden: Golden) -> None:
    answers: Json = {}
    async with linked_to_one(*TOOLS, raw={"sse": True}) as (_, backend, _):
        for case, request in REQUESTS.items():
            session = await begun(backend)
            await session.send(message_of(request))
            messages = [await session.receive()]
            while messages[-1].get("id") != 7:
                messages.append(await session.receive())
            answers[case] = reduced(messages)
    check_answers(golden, "stateless_sessions", answers)


SUBSCRIPTION = '"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}'
FRAMES = [
    '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{'
    f'{SUBSCRIPTION},"notifications":{{"toolsListChanged":true,'
    '"resourceSubscriptions":["raw://text"]}}}',
    f'{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{{SUBSCRIPTION}}}}}',
]


async def test_a_stream_of_changes_has_the_same_frames_as_the_sdks() -> None:
    wanted: Json = {"toolsListChanged": True, "promptsListChanged": False}
    wanted["resourceSubscriptions"] = ["raw://text", "raw://refused"]
    request = message_of(("subscriptions/listen", {"notifications": wanted}))
    headers, body, _ = post({**request, "id": "l"})
    async with (
        in_front_of_one(("echo",), sse=True) as (served, server),
        served.http.stream(
            "POST", "/mcp", content=body, headers=[*TENANT.items(), *headers]
        ) as response,
    ):
        chunks = response.aiter_raw()
        frames = [await anext(chunks)]
        server.script.swap("echo")
        frames.append(await anext(chunks))
    assert frames == [f"event: message\r\ndata: {frame}\r\n\r\n".encode() for frame in FRAMES]


WORDS = {"text": '"progressToken" and io.modelcontextprotocol/logLevel', "progressToken": 1}
DEBUG = {"io.modelcontextprotocol/logLevel": "debug"}


async def replied(case: Request, accept: str) -> list[str]:
    """Post a request, also with a letter of each key escaped; return the shortened replies."""
    method, params = case
    headers = {**TENANT, "Accept": accept, "Content-Type": "application/json"}
    headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Mcp-Name": params["name"]}
    body = json.dumps(message_of(case))
    escaped = body.replace("Token", "\\u0054oken").replace("logLevel", "log\\u004cevel")
    async with in_front_of_one(("echo", "progress", "notify"), sse=True) as (served, _):
        replies = [
            await served.http.post("/mcp", content=content, headers=headers)
            for content in (body, escaped)
        ]
    return [f"{it.status_code} {it.headers['content-type'].partition(';')[0]}" for it in replies]


@pytest.mark.parametrize(
    "case", [call("s1:echo", WORDS), call("s1:echo", _meta={"com.example/logLevel": "debug"})]
)
async def test_words_in_arguments_do_not_turn_the_response_into_a_stream(case: Request) -> None:
    assert await replied(case, "application/json") == ["200 application/json"] * 2


@pytest.mark.parametrize(
    "case",
    [
        call("s1:progress", _meta={"progressToken": 1}),
        call("s1:notify", {"messages": [LINE]}, _meta=DEBUG),
    ],
)
async def test_progress_and_log_messages_come_before_the_result_as_events(case: Request) -> None:
    assert await replied(case, BOTH["Accept"]) == ["200 text/event-stream"] * 2
