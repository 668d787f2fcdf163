"""Bound values appear in no refusal or log line, and are not treated as chosen by the caller."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import Envelope, Service, running

TEXT: Json = {"type": "string"}
FILTER: Json = {"type": "object", "properties": {"by": TEXT, "on": TEXT}}
PROPERTIES: Json = {"text": TEXT, "note": TEXT, "by": TEXT, "filter": FILTER}
USER = {"tenant_id": "acme", "user_id": "ann leak"}
BLOCKED: Json = {"blocklist_keywords": "leak"}


@asynccontextmanager
async def serving(bind: Json, schema: Json | None = None, **more: Any) -> AsyncIterator[Service]:
    tool = {"name": "find", "inputSchema": {"type": "object", "properties": schema or PROPERTIES}}
    async with running_raw(only=(), extra={"tools": [tool]}) as server:
        config = Config(
            servers={"s": {**server.entry, "bind": bind}},
            presets=[make_preset(tools=[("s", "find")])],
            agents=[{**make_agent("writer"), "bind": {"s:find": {"note": "a leak"}}}],
            more={"defaultPresetId": "work"},
        )
        async with running(
            config=config, require_agent=False, log_level="debug", **more
        ) as service:
            yield service


async def find(service: Service, arguments: Json | None = None, **more: Any) -> Envelope:
    return await service.execute("s:find", arguments, user=USER, **more)


@pytest.mark.parametrize(
    ("bind", "more"),
    [
        ({"note": "a leak"}, {}),
        ({"filter": {"on": "a leak"}}, {}),
        ({"filter.on": "a leak"}, {}),
        ({"by": "${caller.user_id}"}, {}),
        ({"filter.by": "by ${caller.user_id}"}, {}),
        ({}, {"agent": "writer"}),
    ],
)
async def test_a_blocked_word_in_a_bound_value_blocks_no_call(bind: Json, more: Json) -> None:
    async with serving(bind, **BLOCKED) as service:
        envelope = await find(service, {"text": "x"}, **more)
        assert envelope["status"] == "ok"
        assert "leak" in str(envelope["result"])


async def test_a_blocked_word_next_to_a_bound_value_blocks_the_call() -> None:
    async with serving({"filter.by": "a leak", "note": "a leak"}, **BLOCKED) as service:
        for arguments in ({"text": "leak"}, {"filter": {"on": "leak"}}, {"filter": {"x": "leak"}}):
            envelope = await find(service, arguments)
            assert envelope["error"]["code"] == "CONTENT_BLOCKED"
            assert "by" not in str(envelope["error"]["details"])


async def test_an_equal_value_is_accepted_although_it_contains_a_blocked_word() -> None:
    async with serving({"note": "a leak"}, **BLOCKED) as service:
        assert (await find(service, {"note": "a leak"}))["status"] == "ok"


@pytest.mark.parametrize(
    ("value", "property_schema"),
    [
        ("hush-hush", {"type": "string", "maxLength": 3}),
        ("hush-hush", {"const": "other"}),
        ({"hush-hush": 1}, {"type": "object", "additionalProperties": False}),
        ({"hush-hush": 1}, {"type": "object", "propertyNames": {"maxLength": 1}}),
        ({"hush-hush": 1}, {"type": "object", "additionalProperties": TEXT}),
        (["hush-hush"], {"type": "array", "items": {"type": "integer"}}),
    ],
)
async def test_a_bound_value_that_violates_the_schema_appears_in_no_refusal_or_log(
    value: object, property_schema: Json
) -> None:
    async with serving({"key": value}, {"key": property_schema, "text": TEXT}) as service:
        with capture_logs() as lines:
            envelope = await find(service, {"text": 1})
    assert envelope["error"]["code"] == "INVALID_ARGUMENTS"
    assert "arguments.key: is filled in by the gateway" in envelope["error"]["message"]
    assert "arguments.text: is not of type" in envelope["error"]["message"]
    assert "hush" not in json.dumps([envelope, lines], default=str)
