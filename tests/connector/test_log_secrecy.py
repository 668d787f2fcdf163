"""Logs contain no value sent over the connector, for any kind of message (W-18)."""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.connector.backend_link import ERAS, LinkedToOne, begun, linked_to_one
from tests.support.captured_logs import capture_logs
from tests.support.relay_samples import FORM, SAMPLE
from tests.support.remote_backend.session import LEGACY, MODERN, Session
from tests.support.service import READY, REMOTE

SECRET = "hush-hush-7c1f"
PROGRESS = {"progressToken": SECRET, "progress": 1, "message": SECRET}
NOTIFICATIONS = [
    {"method": "notifications/progress", "params": PROGRESS},
    {"method": "notifications/message", "params": {"level": "error", "data": SECRET}},
]
TEXT = {"type": "text", "text": SECRET}
RESULT = {
    "content": [
        TEXT,
        {"type": "image", "data": "AA", "mimeType": SECRET},
    ],
    "structuredContent": {"key": SECRET},
    "_meta": {"key": SECRET},
    "new": SECRET,
}
SEARCH = {"doc_id": "doc_1", "query": SECRET}
REF = {"type": "ref/prompt", "name": "greet"}

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a call": ("tools/call", {"name": "s1:echo", "arguments": {"text": SECRET}}),
    "a result": ("tools/call", {"name": "s1:undecodable", "arguments": {"result": RESULT}}),
    "no result": ("tools/call", {"name": "s1:undecodable", "arguments": {"result": {"a": SECRET}}}),
    "an error": ("tools/call", {"name": "s1:error", "arguments": {"message": SECRET}}),
    "a quoted error": ("tools/call", {"name": "s1:error", "arguments": {"message": f'"{SECRET}'}}),
    "notifications": (
        "tools/call",
        {
            "name": "s1:notify",
            "arguments": {"messages": NOTIFICATIONS},
            "_meta": {"progressToken": SECRET, "io.modelcontextprotocol/logLevel": "debug"},
        },
    ),
    "meta": ("tools/call", {"name": "s1:meta", "arguments": {}, "meta": {"key": SECRET}}),
    "a document tool": ("tools/call", {"name": "doc_local_search", "arguments": SEARCH}),
    "a bad argument": ("tools/call", {"name": "s1:sleep", "arguments": {"seconds": SECRET}}),
    "a prompt": ("prompts/get", {"name": "greet", "arguments": {"name": SECRET}}),
    "a completion": (
        "completion/complete",
        {"ref": REF, "argument": {"name": "a", "value": SECRET}},
    ),
    "a cursor": ("tools/list", {"cursor": SECRET}),
    "a malformed request": ("tools/call", {"name": 5, "arguments": SECRET}),
}
TOOLS = ("echo", "undecodable", "error", "notify", "meta", "sleep", "request_client")

Does = Callable[[LinkedToOne], Coroutine[Any, Any, object]]


async def logged_of(does: Does, caplog: pytest.LogCaptureFixture, **options: Any) -> str:
    """Return all log lines of a service from its start to its end."""
    caplog.set_level(logging.DEBUG)
    with capture_logs() as lines:
        async with linked_to_one(*TOOLS, raw={"sse": True, "era": "legacy"}, **options) as linked:
            await does(linked)
    assert any(line["event"] == "remote.frame" for line in lines)
    return json.dumps(lines, default=repr) + caplog.text


@pytest.mark.requirement("W-18")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("method", "params"), REQUESTS.values(), ids=REQUESTS.keys())
async def test_no_value_of_a_request_or_its_answer_is_logged(
    era: str, method: str, params: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def request(linked: LinkedToOne) -> None:
        await (await begun(linked.backend, era)).request(method, params)

    assert SECRET not in await logged_of(request, caplog)


@pytest.mark.requirement("W-18")
@pytest.mark.parametrize("uri", [f"raw://text?key={SECRET}", f"raw://user:{SECRET}@text"])
async def test_a_frames_log_line_has_no_query_or_password_of_a_uri(uri: str) -> None:
    with capture_logs() as lines:
        async with linked_to_one() as (_, backend, _):
            await backend.session().request("resources/read", {"uri": uri})
    frames = [line for line in lines if line["event"] == "remote.frame"]
    assert (len(frames), SECRET in str(frames)) == (2, False)


@pytest.mark.requirement("W-18")
@pytest.mark.parametrize(
    ("sample", "answer"),
    [
        (FORM, {"action": "accept", "content": {"name": SECRET}}),
        (SAMPLE, {"role": "assistant", "content": TEXT, "model": SECRET}),
    ],
    ids=["elicitation", "sampling"],
)
async def test_no_server_request_and_no_answer_to_it_is_logged(
    sample: dict[str, Any], answer: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    request = json.loads(json.dumps(sample).replace("Which name?", SECRET).replace("Hi", SECRET))

    async def answer_request(linked: LinkedToOne) -> None:
        session = await begun(linked.backend, LEGACY, elicitation={}, sampling={})
        async with asyncio.TaskGroup() as tasks:
            calling = tasks.create_task(session.call("s1:request_client", request))
            received = await session.receive()
            await session.send({"jsonrpc": "2.0", "id": received["id"], "result": answer})
        assert SECRET in str(calling.result())

    assert SECRET not in await logged_of(answer_request, caplog)


@pytest.mark.requirement("W-18")
async def test_no_part_of_an_invalid_frame_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def send(linked: LinkedToOne) -> None:
        link = linked.backend.link()
        for text in (
            f'{{"{SECRET}',
            f'{{"session_identifier": "{SECRET}"}}',
            f'{{"session_identifier": "x", "message": "{SECRET}"}}',
            f'{{"session_identifier": "{SECRET * 30}", "message": {{}}}}',
        ):
            await link.send_raw(text)
        await link.send_binary(SECRET.encode())
        await linked.backend.session().result("tools/list")

    assert SECRET not in await logged_of(send, caplog)


@pytest.mark.requirement("W-18")
async def test_neither_the_token_nor_a_sessions_identifier_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sessions: list[Session] = []

    async def list_tools(linked: LinkedToOne) -> None:
        sessions.extend([await begun(linked.backend, era) for era in (MODERN, LEGACY)])
        for session in sessions:
            await session.result("tools/list")
        linked.backend.link().drop()
        await linked.backend.connected(count=2)
        await sessions[0].result("tools/list")

    options: dict[str, Any] = {"backend_options": {"token": SECRET}, "remote_token": SECRET}
    logged = await logged_of(list_tools, caplog, **options)
    assert SECRET not in logged
    assert [session.identifier[:8] in logged for session in sessions] == [True, True]
    assert [session.identifier[:9] in logged for session in sessions] == [False, False]


async def test_no_route_shows_the_token_or_a_sessions_identifier() -> None:
    options: dict[str, Any] = {"backend_options": {"token": SECRET}, "remote_token": SECRET}
    async with linked_to_one(**options) as (service, backend, _):
        session = await begun(backend)
        await session.result("tools/list")
        shown = [(await service.http.get(path)).text for path in (REMOTE, READY, "/metrics")]
    assert [text for text in shown if SECRET in text or session.identifier[:9] in text] == []
