"""The most expensive requests of up to 1 MiB, and a service that receives them."""

import hashlib
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest

from mcp_tools_proxy.app import gateway
from mcp_tools_proxy.gateway.check_processes import WORKER, CheckProcesses
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_thread import running_raw_in_thread
from tests.support.mcp_servers.raw_web import RawServer
from tests.support.service import Service, running

Json = dict[str, Any]

MEBIBYTE = 1_048_576
DRAFT_7 = "http://json-schema.org/draft-07/schema#"

AB = hashlib.shake_128(b"43").digest(900_000).translate(b"ab" * 128).decode()
"""No two parts are equal: the worst case for an engine that caches its states."""

PASSWORD = r"(?=.*[A-Z])(?=.*\d).{8,}"
TWO_COUNTS = "(?:[ab]*a[ab]{300}c|[ab]*b[ab]{299}d)"


def text(pattern: str, **more: object) -> Json:
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
"""Schemas and arguments whose validation would block the event loop for seconds to minutes."""


def checking(schema: Json) -> AbstractAsyncContextManager[RawServer]:
    tool = {"name": "checked", "inputSchema": schema}
    return running_raw_in_thread(only=(), extra={"tools": [tool]})


SHORT_CHECKS = (
    *(sys.executable, "-I", "-c"),
    "from mcp_tools_proxy.gateway import check_worker as worker\nworker.CPU_S = 0.3\nworker.main()",
)
"""The process that validates arguments; its CPU limit is below the product's 1 s."""


@asynccontextmanager
async def serving(
    schema: Json, *, worker: Sequence[str] = WORKER, **settings: Any
) -> AsyncIterator[Service]:
    """Start the service with one tool of this inputSchema, ``raw:checked``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway, "CheckProcesses", partial(CheckProcesses, worker=worker))
        async with (
            checking(schema) as server,
            running(config=config_of(server), **settings) as service,
        ):
            yield service


def config_of(server: RawServer) -> Config:
    preset = make_preset(tools=[("raw", "checked")])
    return Config(
        servers={"raw": server.entry}, presets=[preset], more={"defaultPresetId": preset["id"]}
    )


def call(arguments: bytes, tool_name: str = "raw:checked") -> bytes:
    user = b'{"user_id":"user_1","tenant_id":"tenant_1"}'
    return b'{"tool_name":"%b","user":%b,"arguments":%b}' % (tool_name.encode(), user, arguments)


def one(text_: bytes, name: bytes = b"query") -> bytes:
    return b'{"doc_id":"doc_1","%b":"%b"}' % (name, text_)


def many(value: bytes, count: int) -> bytes:
    return b'{"a":[%b0]}' % (b"%b," % value * count)


KEYS = b"{%b}" % b",".join(b'"k%d":0' % number for number in range(60_000))
MOST_KEYS = b"{%b}" % b",".join(b'"k%d":0' % number for number in range(80_000))
LIGATURES = "ﷺ".encode() * 300_000
"""Each becomes 18 characters by NFKC."""

BODIES: Mapping[str, bytes] = {
    "numbers": call(many(b"0", 99_000)),
    "too-many-numbers": call(many(b"0", 400_000)),
    "objects": call(many(b'{"b":0}', 45_000)),
    "keys": call(KEYS),
    "most-keys": call(MOST_KEYS),
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
"""The most expensive requests of up to 1 MiB."""


class Hostile(NamedTuple):
    """An expensive call and the inputSchema of ``raw:checked``; the arguments are JSON."""

    tool: str
    arguments: bytes
    schema: Json
    is_answered: bool = True
    """False if the entry point cannot recognise it as a request."""


def parts_of(body: bytes) -> tuple[str, bytes]:
    tool = body.removeprefix(b'{"tool_name":"').partition(b'"')[0]
    arguments = body.partition(b'"arguments":')[2].removesuffix(b"}")
    return tool.decode(), arguments


def message_of(tool: str, arguments: bytes, meta: bytes) -> bytes:
    """Build an MCP call with id 1; the arguments are JSON."""
    params = b'{"name":"%b","arguments":%b,"_meta":%b}' % (tool.encode(), arguments, meta)
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params


MESSAGES: Mapping[str, Hostile] = {
    "look-ahead": Hostile(
        "raw:checked", json.dumps(COSTLY["look-ahead"][1]).encode(), COSTLY["look-ahead"][0]
    ),
    **{
        name: Hostile(*parts_of(BODIES[name]), {"type": "object"})
        for name in ("most-keys", "nested")
    },
    "brackets": Hostile("raw:checked", b"[" * 900_000, {"type": "object"}, is_answered=False),
}
"""The most expensive ones, for entry points that receive messages."""
