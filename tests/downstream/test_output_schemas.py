from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import Service, running

TOOL = "undecodable"
"""A tool that returns its caller's arguments."""

SCHEMA: Json = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "item": {"properties": {"id": {"minLength": 2}}}},
    "required": ["count"],
    "additionalProperties": False,
}
GOOD: Json = {"content": [], "structuredContent": {"count": 1}}
BAD: dict[str, tuple[Json, str]] = {
    "type": ({"count": "secret"}, "structuredContent.count: "),
    "missing": ({}, 'structuredContent: "count" is missing'),
    "additional": ({"count": 1, "more": 2}, 'structuredContent: "more" is not allowed here'),
    "nested": ({"count": 1, "item": {"id": "s"}}, "structuredContent.item.id: "),
}


class Called(NamedTuple):
    """A service in front of a server that offers TOOL with an outputSchema."""

    service: Service

    async def envelope(self, result: Json) -> Json:
        return await self.service.execute(f"s1:{TOOL}", {"result": result})

    async def mismatches(self) -> float:
        """Return the number of results in the metric."""
        lines = (await self.service.http.get("/metrics")).text.splitlines()
        name = 'mcp_proxy_server_output_mismatches_total{server="s1"} '
        (line,) = [line for line in lines if line.startswith(name)]
        return float(line.removeprefix(name))


@asynccontextmanager
async def calling(check: str, schema: Any = SCHEMA, **settings: Any) -> AsyncIterator[Called]:
    tool = {"name": TOOL, "inputSchema": {"type": "object"}, "outputSchema": schema}
    async with running_raw(extra={"tools": [tool]}) as server:
        config = Config(
            servers={"s1": server.entry},
            presets=[make_preset(tools=[("s1", TOOL), ("s1", "echo")])],
        )
        async with running(config=config, output_schema_check=check, **settings) as service:
            yield Called(service)


def result_of(content: Json) -> Json:
    return {"content": [], "structuredContent": content}


@pytest.mark.parametrize("kind", BAD)
async def test_enforce_fails_a_mismatching_result_and_names_the_field(kind: str) -> None:
    content, named = BAD[kind]
    async with calling("enforce") as called:
        error = (await called.envelope(result_of(content)))["error"]
        assert (error["code"], named in error["message"]) == ("TOOL_FAILED", True), error
        assert "secret" not in error["message"]
        assert "retryable" not in error
        assert (await called.envelope(GOOD))["status"] == "ok"
        assert await called.mismatches() == 1


async def test_enforce_fails_a_result_without_structured_content() -> None:
    async with calling("enforce") as called:
        error = (await called.envelope({"content": [{"type": "text", "text": "1"}]}))["error"]
        assert "structuredContent: is missing" in error["message"]


async def test_an_error_of_the_tool_is_passed_on_unchanged() -> None:
    async with calling("enforce") as called:
        failed = {"content": [{"type": "text", "text": "no such row"}], "isError": True}
        error = (await called.envelope(failed))["error"]
        assert "no such row" in error["message"]
        assert await called.mismatches() == 0


async def test_a_call_with_a_mismatching_result_is_charged() -> None:
    async with calling("enforce", unlimited=False, rate_limit_tenant_calls=1) as called:
        assert (await called.envelope(result_of({})))["error"]["code"] == "TOOL_FAILED"
        assert (await called.envelope(GOOD))["error"]["code"] == "RATE_LIMIT_EXCEEDED"


async def test_a_warning_is_a_log_line_and_a_count() -> None:
    async with calling("warn") as called:
        with capture_logs() as logs:
            envelope = await called.envelope(result_of({}))
        (line,) = [line for line in logs if line["event"] == "server.output_mismatch"]
        assert (envelope["status"], line["tool"]) == ("ok", f"s1:{TOOL}")
        assert await called.mismatches() == 1


async def test_results_are_not_validated_by_default() -> None:
    async with calling("off") as called:
        assert (await called.envelope(result_of({})))["status"] == "ok"
        assert await called.mismatches() == 0


@pytest.mark.parametrize(
    "schema", [{"type": "no-such-type"}, {"$ref": "https://example.com/x"}, {"pattern": "("}]
)
async def test_a_broken_schema_does_not_hide_its_tool(schema: Json) -> None:
    with capture_logs() as logs:
        async with calling("enforce", {**schema, "title": str(schema)}) as called:
            assert (await called.envelope(result_of({"any": 1})))["status"] == "ok"
            assert await called.service.code("s1:echo", {"text": "a"}) == "OK"
    (ignored,) = [line for line in logs if line["event"] == "server.fields_ignored"]
    assert (ignored["name"], ignored["fields"][0].partition(" ")[0]) == (TOOL, "outputSchema")


async def test_a_result_whose_validation_takes_too_long_does_not_match() -> None:
    schema = {
        "type": "object",
        "additionalProperties": {"allOf": [{"pattern": f"(a|b{n})*c"} for n in range(50)]},
    }
    async with calling("enforce", schema, max_result_bytes=10**7) as called:
        content = {f"k{number}": "ab" * 10 for number in range(10_000)}
        error = (await called.envelope(result_of(content)))["error"]
        assert "too large or too deeply nested to be checked" in error["message"]
