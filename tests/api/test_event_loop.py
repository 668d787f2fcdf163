"""No request of up to 1 MiB keeps the event loop busy for more than 50 ms of CPU time."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.configuration import Config, make_preset
from tests.support.loop_turns import MOST_S, measured_turns
from tests.support.mcp_servers.raw_thread import running_raw_in_thread
from tests.support.mcp_servers.raw_web import RawServer
from tests.support.service import EXECUTE, Service, eventually, request_of, running

Json = dict[str, Any]

MEBIBYTE = 1_048_576
DRAFT_7 = "http://json-schema.org/draft-07/schema#"

AB = bytes(b"ab"[byte & 1] for byte in hashlib.shake_128(b"43").digest(900_000)).decode()
"""No two parts of it are the same, which is the worst for an engine that keeps its states."""

PASSWORD = r"(?=.*[A-Z])(?=.*\d).{8,}"
TWO_COUNTS = "(?:[ab]*a[ab]{300}c|[ab]*b[ab]{299}d)"


def text(pattern: str, **more: object) -> Json:
    """Build the schema of one text."""
    return {"type": "object", "properties": {"text": {"pattern": pattern, **more}}}


COSTLY: Mapping[str, tuple[Json, Json]] = {
    "look-ahead": (text(PASSWORD), {"text": "a" * 100_000}),
    "look-ahead-1-MiB": (text(PASSWORD), {"text": "a" * 1_000_000}),
    "counts": (text(TWO_COUNTS), {"text": AB}),
    "nested-counts": (text("([ab]{100}){100}c"), {"text": AB}),
    "back-reference": (text(r"(a+)\1+b"), {"text": "a" * 200_000}),
    "look-behind": (text(r"(?<=a)(?<!b)(a|aa)+$"), {"text": "a" * 500_000 + "b"}),
    "names": (
        {"type": "object", "propertyNames": {"pattern": PASSWORD}},
        {"a" * 300_000: 1, "b" * 300_000: 2},
    ),
    "pattern-properties": (
        {"type": "object", "patternProperties": {TWO_COUNTS: {"type": "string"}}},
        {AB[:400_000]: "x", AB[400_000:800_000]: "y"},
    ),
    "many-texts": (
        {"type": "object", "properties": {"all": {"items": {"pattern": r"(?=.*x)(?=.*y)z"}}}},
        {"all": ["a" * 500] * 2_000},
    ),
    "not-a-pattern": (
        {"type": "object", "properties": {"text": {"not": {"pattern": PASSWORD}}}},
        {"text": "a" * 100_000},
    ),
    "unique-large-integers": (
        {"type": "object", "properties": {"all": {"uniqueItems": True}}},
        {"all": [10**30 + n for n in range(25_000)]},
    ),
    "unique-lists-of-large-integers": (
        {"type": "object", "properties": {"all": {"items": {"uniqueItems": True}}}},
        {"all": [[[10**300 + n] for n in range(3_000)]]},
    ),
    "fractions-of-an-enum": (
        {
            "type": "object",
            "properties": {"all": {"items": {"enum": [n + 0.5 for n in range(2_000)]}}},
        },
        {"all": [1999.5] * 4_000},
    ),
    "texts-and-fractions-of-an-enum": (
        {
            "type": "object",
            "properties": {"all": {"items": {"enum": [*(n / 3 for n in range(20_000)), "a"]}}},
        },
        {"all": ["b"] * 20_000},
    ),
    "smallest-fractions": (
        {"type": "object", "properties": {"all": {"items": {"minimum": 0.5}}}},
        {"all": [1, *[1e-310] * 90_000]},
    ),
    "problems-of-many-alternatives": (
        {"anyOf": [{"required": ["never"]} for _ in range(9)]},
        {f"k{n}": 1 for n in range(40_000)},
    ),
    "copies-of-a-text-for-problems": (
        {"type": "object", "properties": {"text": {"anyOf": [{"type": "null"}] * 1_000}}},
        {"text": "a" * 900_000},
    ),
}
"""Schemas and arguments whose check would take the event loop seconds to minutes."""


@asynccontextmanager
async def serving(schema: Json, **settings: Any) -> AsyncIterator[Service]:
    """Start the service with one tool of that inputSchema, ``raw:checked``."""
    tool = {"name": "checked", "inputSchema": schema}
    async with (
        running_raw_in_thread(only=(), extra={"tools": [tool]}) as server,
        running(config=_config(server), **settings) as service,
    ):
        yield service


def _config(server: RawServer) -> Config:
    preset = make_preset(tools=[("raw", "checked")])
    return Config(
        servers={"raw": server.entry}, presets=[preset], more={"defaultPresetId": preset["id"]}
    )


def body_of(arguments: Json) -> bytes:
    body = json.dumps(request_of("raw:checked", arguments)).encode()
    assert len(body) <= MEBIBYTE
    return body


@pytest.mark.parametrize("name", COSTLY)
async def test_a_check_of_arguments_leaves_the_event_loop_to_others(name: str) -> None:
    schema, arguments = COSTLY[name]
    body = body_of(arguments)
    async with serving(schema) as service, measured_turns() as turns:
        response = await service.http.post(EXECUTE, content=body)
    assert response.json()["error"]["code"] == "INVALID_ARGUMENTS"
    assert turns.longest < MOST_S


def call(arguments: bytes, tool_name: str = "raw:checked") -> bytes:
    """Build an execute request of arguments that are JSON."""
    user = b'{"user_id":"user_1","tenant_id":"tenant_1"}'
    return b'{"tool_name":"%b","user":%b,"arguments":%b}' % (tool_name.encode(), user, arguments)


def one(text_: bytes, name: bytes = b"query") -> bytes:
    return b'{"doc_id":"doc_1","%b":"%b"}' % (name, text_)


def many(value: bytes, count: int) -> bytes:
    return b'{"a":[%b0]}' % (b"%b," % value * count)


KEYS = b"{%b}" % b",".join(b'"k%d":0' % number for number in range(60_000))
LIGATURES = "ﷺ".encode() * 300_000
"""Each becomes 18 characters by NFKC."""

BODIES: Mapping[str, bytes] = {
    "numbers": call(many(b"0", 99_000)),
    "too-many-numbers": call(many(b"0", 400_000)),
    "objects": call(many(b'{"b":0}', 45_000)),
    "keys": call(KEYS),
    "long-keys": call(b"{%b}" % b",".join(b'"%b%d":0' % (b"k" * 9_000, n) for n in range(100))),
    "repeated-keys": call(many(b'{"b":0,"b":1}', 30_000)),
    "repeated-key": call(b'{"text":"%b","a":[%b0]}' % (b"z" * 800_000, b'{"b":0,"b":1},' * 4_900)),
    "escapes": call(one(rb"\u003a" * 160_000)),
    "backslashes": call(one(rb"\\" * 450_000)),
    "quotes": call(one(rb"\"" * 450_000)),
    "lone-surrogates": call(one(rb"\ud83d" * 160_000)),
    "brackets": call(b"[" * 900_000),
    "nested": call(many(b"[" * 58 + b"]" * 58, 1_500)),
    "long-numbers": call(many(b"9" * 308, 3_000)),
    "numbers-beyond-a-float": call(many(b"9" * 320, 3_000)),
    "a-huge-number": call(b'{"a":%b}' % (b"9" * 900_000)),
    "a-huge-fraction": call(b'{"a":0.%b}' % (b"9" * 900_000)),
    "exponents": call(many(b"1e-99", 99_000)),
    "a-text": call(one(b"a" * 900_000)),
    "ligatures": call(one(LIGATURES)),
    "marks": call(one("a\u0315\u0301".encode() * 150_000)),
    "broken-utf-8": call(one(b"a" * 900_000 + b"\xff")),
    "white-space": call(b'{"a":%b1}' % (b" " * 900_000)),
    "roles": b'{"tool_name":"x","user":{"tenant_id":"t","user_id":"u","roles":[%b""]}}'
    % (b'"r",' * 99_000),
    "a-tool-name": call(b"{}", "a:b:" * 220_000),
    "local-keys": call(KEYS, "read_doc_metadata"),
    "local-list": call(b'{"doc_id":[%b0]}' % (b"0," * 99_000), "read_doc_metadata"),
    "a-query": call(one(b"a b " * 220_000), "doc_local_search"),
    "a-blank-query": call(one(b" " * 900_000), "doc_local_search"),
    "a-query-of-ligatures": call(one(LIGATURES), "doc_local_search"),
    "a-query-of-documents": call(b'{"query":"%b"}' % (b"word " * 180_000), "search_documents"),
    "tags": call(b'{"query":"a","tags":[%b""]}' % (b'"t",' * 99_000), "search_documents"),
    "a-filter": call(b'{"query":"%b"}' % LIGATURES, "list_documents"),
    "a-cursor": call(b'{"cursor":"%b"}' % (b"ab" * 450_000), "list_documents"),
    "a-quote": call(one("ﷺ".encode() * 1_900, b"quote"), "verify_quote"),
    "a-long-quote": call(one(LIGATURES, b"quote"), "verify_quote"),
}
"""Requests of up to 1 MiB that are as expensive as they can be."""


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("keywords", ["", "drop table,secret"])
async def test_a_request_leaves_the_event_loop_to_others(name: str, keywords: str) -> None:
    body = BODIES[name]
    assert len(body) <= MEBIBYTE
    async with serving({"type": "object"}, blocklist_keywords=keywords) as service:
        async with measured_turns() as turns:
            response = await service.http.post(EXECUTE, content=body)
        assert response.json()["status"] in ("ok", "error")
    assert turns.longest < MOST_S


async def test_a_server_of_very_many_tools_leaves_the_event_loop_to_others() -> None:
    properties = {f"p{n}": {"type": "string", "description": "words " * 9} for n in range(9)}
    slow = {f"t{n}": {"pattern": rf"^\p{{L}}{{1,{n + 1}}}$"} for n in range(20)}
    schemas = [{"type": "object", "properties": properties}] * 4_000
    schemas += [{"type": "object", "properties": slow | {f"q{n}": {}}} for n in range(20)]
    tools = [
        {"name": f"tool{n}", "inputSchema": schema, "description": f"the {n}th"}
        for n, schema in enumerate(schemas)
    ]
    async with running_raw_in_thread(only=(), extra={"tools": tools}) as server:
        config = Config(servers={"raw": server.entry})
        async with running(config=config, discovered=False) as service, measured_turns() as turns:
            await service.discovered()
        assert len(service.gateway.pool.statuses) == 1
    assert turns.longest < MOST_S


async def test_a_new_list_for_many_sessions_leaves_the_event_loop_to_others() -> None:
    properties = {f"p{n}": {"type": "string", "description": "words " * 9} for n in range(9)}
    region = {"type": "string", "x-mcp-header": "Region"}
    headers = {"inputSchema": {"type": "object", "properties": {"region": region}}}
    tools = [
        {"name": f"tool{n}", "inputSchema": {"type": "object", "properties": properties}}
        for n in range(2_000)
    ]
    async with running_raw_in_thread(only=("flood",), extra={"tools": tools}) as server:
        entry = {**server.entry, "isolation": "tenant"}
        names = ["flood", "headers"]
        preset = make_preset(tools=[("raw", name) for name in names])
        config = Config(
            servers={"raw": entry}, presets=[preset], more={"defaultPresetId": preset["id"]}
        )
        async with running(config=config) as service:
            tenants = [f"tenant_{n}" for n in range(24)]
            for tenant in tenants:
                await service.result("raw:flood", {"count": 0}, tenant_id=tenant)
            server.script.tools["headers"] = {"name": "headers", **headers}
            async with measured_turns() as turns:
                await service.result("raw:flood", {"count": 1}, tenant_id=tenants[0])
                await eventually(lambda: _offers(service, "raw:headers"))
            found = await service.result("raw:headers", {"region": "eu"}, tenant_id=tenants[1])
    assert found["structured_content"]["mcp-param-region"] == "eu"
    assert turns.longest < MOST_S


async def _offers(service: Service, tool: str) -> bool:
    return tool in await service.listed()


async def test_a_check_that_takes_too_long_is_charged_as_a_call() -> None:
    async with serving(text(PASSWORD), unlimited=False, rate_limit_tenant_calls=2) as service:
        errors = [
            (await service.execute("raw:checked", {"text": "a" * 100_000}))["error"]
            for _ in range(3)
        ]
    assert [error["code"] for error in errors] == [
        *["INVALID_ARGUMENTS"] * 2,
        "RATE_LIMIT_EXCEEDED",
    ]
    assert "shorten arguments.text, which has 100000 characters" in errors[0]["message"]


async def test_a_wrong_value_that_took_a_process_is_charged_as_a_call() -> None:
    schema = text(r"^(?!a)")
    async with serving(schema, unlimited=False, rate_limit_tenant_calls=1) as service:
        first = await service.code("raw:checked", {"text": "a" * 10_000})
        second = await service.code("raw:checked", {"text": "a" * 10_000})
    assert (first, second) == ("INVALID_ARGUMENTS", "RATE_LIMIT_EXCEEDED")


@pytest.mark.parametrize("pattern", [r"^(?!\s*$)", r"^[\s\S]*$", "^(a?){1,20}"])
async def test_a_long_text_that_fits_a_pattern_is_passed_on_and_charged_once(pattern: str) -> None:
    async with serving(text(pattern), unlimited=False, rate_limit_tenant_calls=2) as service:
        codes = [await service.code("raw:checked", {"text": "a" * 500_000}) for _ in range(3)]
    assert [code == "RATE_LIMIT_EXCEEDED" for code in codes] == [False, False, True]
    assert "INVALID_ARGUMENTS" not in codes


async def test_calls_of_other_tenants_are_checked_while_one_tenants_checks_take_long() -> None:
    async with serving(text(PASSWORD)) as service, asyncio.TaskGroup() as group:
        costly = group.create_task(service.code("raw:checked", {"text": "a" * 100_000}))
        others = [
            await service.code("raw:checked", {"text": "Abcdefg1" * times}, tenant_id="other")
            for times in (20, 200)
        ]
        assert not costly.done()
        assert "INVALID_ARGUMENTS" not in others


async def test_a_blocked_event_loop_is_in_the_metrics() -> None:
    counted = "mcp_proxy_event_loop_blocked_seconds_count"

    async def is_counted() -> bool:
        lines = (await service.http.get("/metrics")).text.splitlines()
        return any(line.startswith(counted) and float(line.split()[1]) >= 1 for line in lines)

    async with running() as service:
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - blocks the loop on purpose
        await eventually(is_counted)
