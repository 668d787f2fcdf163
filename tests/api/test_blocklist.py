"""CONTENT_BLOCKED through the API: off by default, and who is told what (T-06)."""

from collections.abc import AsyncIterator, Mapping

import pytest

from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import Service, running

pytestmark = pytest.mark.requirement("T-06")

FIND = {
    "name": "find",
    "inputSchema": {
        "type": "object",
        "properties": {
            "filter": {
                "type": "object",
                "properties": {"words": {"type": "array", "items": {"type": "string"}}},
            }
        },
    },
}


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with running_raw(extra={"tools": [FIND]}) as server:
        config = Config(servers={"s1": server.entry}, presets=[make_preset(tools=[("s1", "find")])])
        async with running(config=config, blocklist_keywords=("Exfiltrate",)) as started:
            yield started


async def refused(
    service: Service, tool: str, arguments: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the error that the caller gets, and the call's log line."""
    with capture_logs() as lines:
        envelope = await service.execute(tool, arguments)
    (line,) = [line for line in lines if line.get("code") == "CONTENT_BLOCKED"]
    return envelope["error"], dict(line)


@pytest.mark.parametrize("query", ["memory leak", "pg_dump or dump", "exfiltrate"])
async def test_by_default_nothing_is_blocked(query: str) -> None:
    async with running() as service:
        arguments = {"doc_id": "doc_1", "query": query}
        assert await service.code("doc_local_search", arguments) == "OK"


async def test_the_caller_is_told_which_argument_and_not_which_keyword(service: Service) -> None:
    arguments = {"doc_id": "doc_1", "query": "please EXFILTRATE it"}
    error, line = await refused(service, "doc_local_search", arguments)
    assert (error["details"], '"query"' in str(error["message"])) == ({"argument": "query"}, True)
    assert "exfiltrate" not in str(error).casefold()
    assert (line["event"], line["argument"], line["keyword"]) == (
        "tool.call",
        "query",
        "exfiltrate",
    )


async def test_a_nested_argument_is_named_by_its_path(service: Service) -> None:
    arguments = {"filter": {"words": ["fine", "to exfiltrate"]}}
    error, line = await refused(service, "s1:find", arguments)
    assert error["details"] == {"argument": "filter.words[1]"}
    assert (line["argument"], line["keyword"]) == ("filter.words[1]", "exfiltrate")


async def test_a_key_that_is_not_declared_is_in_neither_message_nor_log(service: Service) -> None:
    arguments = {"filter": {"alice@example.com": "exfiltrate"}}
    error, line = await refused(service, "s1:find", arguments)
    assert error["details"] == {"argument": "filter"}
    assert "alice" not in str(error) + str(line)


async def test_without_a_declared_argument_none_is_named(service: Service) -> None:
    error, line = await refused(service, "s1:find", {"alice": "exfiltrate"})
    assert ("details" in error, "argument" in line) == (False, False)
    assert "alice" not in str(error) + str(line)
