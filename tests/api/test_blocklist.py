"""CONTENT_BLOCKED through the API: off by default; errors name the argument only (T-06)."""

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
    with capture_logs() as lines:
        envelope = await service.execute(tool, arguments)
    (line,) = [line for line in lines if line.get("code") == "CONTENT_BLOCKED"]
    return envelope["error"], dict(line)


@pytest.mark.parametrize("query", ["memory leak", "pg_dump or dump", "exfiltrate"])
async def test_by_default_nothing_is_blocked(query: str) -> None:
    async with running() as service:
        arguments = {"doc_id": "doc_1", "query": query}
        assert await service.code("doc_local_search", arguments) == "OK"


async def test_the_caller_reads_the_argument_but_not_the_keyword(service: Service) -> None:
    arguments = {"doc_id": "doc_1", "query": "please EXFILTRATE it"}
    error, line = await refused(service, "doc_local_search", arguments)
    assert (error["details"], '"query"' in str(error["message"])) == ({"argument": "query"}, True)
    assert "exfiltrate" not in str(error).casefold()
    assert (line["event"], line["argument"], line["keyword"]) == (
        "tool.call",
        "query",
        "exfiltrate",
    )


async def test_the_error_has_the_path_of_a_nested_argument(service: Service) -> None:
    arguments = {"filter": {"words": ["fine", "to exfiltrate"]}}
    error, line = await refused(service, "s1:find", arguments)
    assert error["details"] == {"argument": "filter.words[1]"}
    assert (line["argument"], line["keyword"]) == ("filter.words[1]", "exfiltrate")


async def test_an_undeclared_key_appears_in_neither_message_nor_log(service: Service) -> None:
    arguments = {"filter": {"alice@example.com": "exfiltrate"}}
    error, line = await refused(service, "s1:find", arguments)
    assert error["details"] == {"argument": "filter"}
    assert "alice" not in str(error) + str(line)


async def test_the_error_names_no_undeclared_argument(service: Service) -> None:
    error, line = await refused(service, "s1:find", {"alice": "exfiltrate"})
    assert ("details" in error, "argument" in line) == (False, False)
    assert "alice" not in str(error) + str(line)
