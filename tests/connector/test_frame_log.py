"""The log line of each frame, in both directions (W-15 … W-18, W-20)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from tests.connector.backend_link import begun, linked_to_one
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Json
from tests.support.local_tools import LISTED_TOOLS
from tests.support.remote_backend.session import LEGACY, MODERN, Session
from tests.support.seed_002 import CALL, CALL_REPLY, LIST_REPLY, SEED

FRAME = "remote.frame"
OUR_KEY = "io.github.mcp-tools-proxy/traceId"
THEIR_KEYS = (
    "io.modelcontextprotocol/protocolVersion,io.modelcontextprotocol/clientInfo,"
    "io.modelcontextprotocol/clientCapabilities"
)
SAMPLES = {
    "lists": (
        LIST_REPLY,
        "type=response id=1 result{tools=1, tool_names=s1:search, input_schema_fields=query,top_k,"
        " output_schema_fields=results, prompts=1, prompt_names=hello, resources=1,"
        " resource_keys=docs/{id}} has_result=true",
    ),
    "a call": (
        CALL,
        "type=request id=42 method=tools/call params=name,arguments,meta"
        " params{target=s1:search, args=query,top_k, meta=trace_id}",
    ),
    "a reply": (
        CALL_REPLY,
        "type=response id=42 result{content=1, content_types=text, structured_keys=results,"
        " meta_keys=trace_id, is_error=false} has_result=true",
    ),
}


class Logged(NamedTuple):
    """A session of the backend and the lines logged during it."""

    session: Session
    lines: list[Mapping[str, Any]]

    def summaries(self, direction: str) -> list[str]:
        return [it["summary"] for it in self.lines if it.get("direction") == direction]

    async def of(self, method: str, params: Json) -> tuple[str, str]:
        """Send a request; return the log lines of it and its response."""
        await self.session.request(method, params)
        return self.summaries("in")[-1], self.summaries("out")[-1]


@asynccontextmanager
async def logged(*tools: str, era: str = LEGACY, **raw: Any) -> AsyncIterator[Logged]:
    """Start a session; ``raw`` are options of the server behind the service."""
    async with linked_to_one(*tools, raw=raw) as (_, backend, _):
        session = await begun(backend, era)
        if era == LEGACY:
            await session.result("ping")  # all lines of earlier frames are logged
        with capture_logs() as lines:
            yield Logged(session, lines)  # type: ignore[arg-type]


@pytest.mark.requirement("W-20", "W-09")
@pytest.mark.parametrize(("message", "expected"), SAMPLES.values(), ids=SAMPLES.keys())
async def test_the_samples_of_seed_002_are_logged_as_a_6_specifies(
    message: Json, expected: str
) -> None:
    async with logged() as it:
        await it.session.send(message)
        await it.session.result("ping")
    assert it.summaries("in")[0] == expected


@pytest.mark.requirement("W-15")
async def test_each_frame_is_logged_in_one_line_with_its_direction_and_a_session_prefix() -> None:
    async with logged("echo") as it:
        await it.session.call("s1:echo", {"text": "x"})
    lines = [line for line in it.lines if line["event"] == FRAME]
    start = it.session.identifier[:8]
    assert [(line["direction"], line["session"], line["log_level"]) for line in lines] == [
        ("in", start, "info"),
        ("out", start, "info"),
    ]
    assert {frozenset(line) for line in lines} == {
        frozenset({"event", "log_level", "direction", "session", "summary"})
    }


@pytest.mark.requirement("W-15")
async def test_the_handshake_of_the_older_eras_is_logged() -> None:
    async with linked_to_one() as (_, backend, _):
        with capture_logs() as lines:
            await begun(backend, LEGACY)
            await backend.session().result("tools/list")
    summaries = [line["summary"] for line in lines if line["event"] == FRAME]
    assert summaries[:3] == [
        "type=request id=1 method=initialize params=protocolVersion,capabilities,clientInfo",
        "type=response id=1 has_result=true",
        "type=notification method=notifications/initialized",
    ]


@pytest.mark.requirement("W-15", "W-17")
async def test_a_request_of_the_newer_era_is_logged_with_its_meta_keys() -> None:
    async with logged("echo", era=MODERN) as it:
        params = {"name": "s1:echo", "arguments": {"text": "x", "é": 1}, "_meta": {"a/b": 1}}
        summary, _ = await it.of("tools/call", params)
    assert summary == (
        "type=request id=2 method=tools/call params=name,arguments,_meta"
        f" params{{target=s1:echo, args=text,é, meta={THEIR_KEYS},a/b}}"
    )


LISTED = {
    "tools/list": f"tools={len(LISTED_TOOLS) + 2},"
    f" tool_names={','.join(LISTED_TOOLS[:5])},...,"
    " input_schema_fields=doc_id,version,section_id,start_char,"
    " output_schema_fields=text,tokens,section_id,doc_id,truncated,...",
    "prompts/list": "prompts=3, prompt_names=greet,plain,hello",
    "resources/list": "resources=2, resource_keys=raw://text,docs://1",
    "resources/templates/list": "resource_templates=4,"
    " resource_template_keys=doc://{doc_id},doc://{doc_id}/pages/{from}-{to},raw://item/{id},"
    "docs/{id}",
}


@pytest.mark.requirement("W-16")
@pytest.mark.parametrize("method", LISTED)
async def test_a_lists_reply_is_logged_with_its_count_names_and_fields(method: str) -> None:
    async with logged("search", extra=SEED) as it:
        summaries = await it.of(method, {})
    assert summaries == (
        f"type=request id=3 method={method}",
        f"type=response id=3 result{{{LISTED[method]}}} has_result=true",
    )


USED = {
    "a call": (
        ("tools/call", {"name": "s1:echo", "arguments": {"text": "x"}}),
        "params=name,arguments params{target=s1:echo, args=text}",
        "type=response id=3 result{content=1, content_types=text, structured_keys=text,"
        f" meta_keys={OUR_KEY}}} has_result=true",
    ),
    "a failed call": (
        ("tools/call", {"name": "s1:is_error", "arguments": {}}),
        "params=name,arguments params{target=s1:is_error}",
        "type=response id=3 result{content=1, content_types=text, structured_keys=why,"
        f" meta_keys={OUR_KEY},io.github.mcp-tools-proxy/error, is_error=true}} has_result=true",
    ),
    "content of two types": (
        ("tools/call", {"name": "s1:no_type", "arguments": {}}),
        "params=name,arguments params{target=s1:no_type}",
        "type=response id=3 result{content=2, content_types=text,image,"
        f" meta_keys={OUR_KEY}}} has_result=true",
    ),
    "a prompt": (
        ("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}}),
        "params=name,arguments params{target=greet, args=name}",
        "type=response id=3 result{messages=1, content_types=text,"
        f" meta_keys={OUR_KEY}}} has_result=true",
    ),
    "a resource": (
        ("resources/read", {"uri": "raw://item/7"}),
        "params=uri params{target=raw://item/7}",
        "type=response id=3 result{contents=1, resource_keys=raw://item/7,"
        f" meta_keys={OUR_KEY}}} has_result=true",
    ),
    "an error": (("no/such", {}), "", "type=error id=3 error=Method not found"),
}


@pytest.mark.requirement("W-15", "W-17")
@pytest.mark.parametrize(("sent", "request_", "reply"), USED.values(), ids=USED.keys())
async def test_a_call_and_its_reply_are_logged_with_target_and_keys(
    sent: tuple[str, Json], request_: str, reply: str
) -> None:
    async with logged("echo", "is_error", "no_type") as it:
        summaries = await it.of(*sent)
    assert summaries == (f"type=request id=3 method={sent[0]} {request_}".rstrip(), reply)


@pytest.mark.requirement("W-15")
async def test_a_calls_notifications_are_logged() -> None:
    async with logged("progress", sse=True) as it:
        await it.session.call("s1:progress", _meta={"progressToken": "t"})
    assert (
        it.summaries("out")[:2]
        == ["type=notification method=notifications/progress params=progressToken,progress,total"]
        * 2
    )


@pytest.mark.requirement("W-15")
async def test_an_invalid_message_is_logged_as_such() -> None:
    async with logged() as it:
        await it.session.send(["x"])
        await it.session.result("ping")
    assert it.summaries("in")[0] == "payload=non-object"
