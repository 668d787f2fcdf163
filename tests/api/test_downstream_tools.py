"""Tools of real downstream servers: listed, called and refused as the active preset says."""

from collections.abc import AsyncIterator

import pytest

from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import BATCH, EXECUTE, TOOLS, Service, running


@pytest.fixture(scope="module", params=["modern", "legacy"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[RawServer]:
    async with running_raw(era=request.param, extra={"tools": [ODD_TOOL]}) as started:
        yield started


ODD_TOOL = {
    "name": "odd:one",
    "title": "Odd",
    "description": "Has a colon and more.",
    "inputSchema": {"type": "object", "$defs": {"x": {"type": "string"}}},
    "annotations": {"readOnlyHint": False},
    "_meta": {"com.example/tag": [1, 2]},
    "somethingNew": {"kept": True},
}


@pytest.fixture(scope="module")
async def service(server: RawServer, lasting: Json) -> AsyncIterator[Service]:
    allowed = ("echo", "meta", "is_error", "odd:one")
    config = Config(
        servers={"s1": server.entry},
        presets=[make_preset(tools=[("s1", name) for name in allowed])],
    )
    async with running(config=config, **lasting) as started:
        yield started


@pytest.mark.requirement("P-06")
async def test_a_referenced_tool_is_listed_as_server_and_tool(service: Service) -> None:
    assert await service.listed() == ["s1:echo", "s1:meta", "s1:is_error", "s1:odd:one"]


@pytest.mark.requirement("P-06")
async def test_the_rest_of_a_listed_descriptor_is_as_its_server_sent_it(service: Service) -> None:
    tools = {tool["name"]: tool for tool in (await service.get(TOOLS))["tools"]}
    assert tools["s1:odd:one"] == {**ODD_TOOL, "name": "s1:odd:one"}


@pytest.mark.requirement("P-08", "F-09")
async def test_a_tool_that_the_preset_does_not_name_is_refused(
    service: Service, server: RawServer
) -> None:
    envelope = await service.execute("s1:whoami")
    assert (envelope["error"]["code"], server.script.calls["whoami"]) == ("TOOL_NOT_ALLOWED", 0)


async def test_a_tool_that_is_nowhere_is_refused_in_the_same_words(service: Service) -> None:
    hidden, nowhere = [
        (await service.execute(name))["error"]["message"] for name in ("s1:whoami", "s1:nosuch")
    ]
    assert hidden.replace("whoami", "nosuch") == nowhere


@pytest.mark.requirement("P-08", "F-16")
async def test_each_call_of_a_batch_is_checked_on_its_own(service: Service) -> None:
    calls = [{"tool_name": name} for name in ("s1:whoami", "s1:echo", "s1:hang")]
    body = {"calls": calls, "user": {"user_id": "u", "tenant_id": "t"}}
    results = (await service.http.post(BATCH, json=body)).json()["results"]
    assert [result["status"] for result in results] == ["error", "ok", "error"]


@pytest.mark.requirement("F-06", "F-17")
async def test_the_server_gets_the_bare_name_and_the_arguments_unchanged(service: Service) -> None:
    arguments = {"text": "3", "other": [1, None, {"deep": "ü"}], "number": 1.0}
    result = await service.result("s1:echo", arguments)
    assert result["structured_content"] == arguments


@pytest.mark.requirement("F-08")
async def test_a_tool_with_a_colon_is_called_by_its_qualified_name(service: Service) -> None:
    result = await service.result("s1:odd:one")
    assert result["structured_content"]["tool"] == "odd:one"


@pytest.mark.parametrize("name", ["s1__echo", "echo"])
async def test_a_tool_is_called_by_its_alias_and_by_its_bare_name(
    service: Service, name: str
) -> None:
    result = await service.result(name, {"text": "hi"})
    assert result["structured_content"] == {"text": "hi"}


@pytest.mark.parametrize("name", ["ech", ":echo", "s1:"])
@pytest.mark.requirement("F-07")
async def test_a_name_that_is_no_pair_is_told_what_a_name_looks_like(
    service: Service, name: str
) -> None:
    error = (await service.execute(name))["error"]
    assert (error["code"], "server_id:tool" in error["details"]["expected"]) == (
        "TOOL_NOT_FOUND",
        True,
    )


@pytest.mark.requirement("F-10")
async def test_a_server_that_is_unknown_is_refused(service: Service) -> None:
    assert await service.code("s2:echo") == "TOOL_NOT_ALLOWED"


async def test_a_servers_own_error_keeps_its_content(service: Service) -> None:
    error = (await service.execute("s1:is_error"))["error"]
    assert (error["code"], error["details"]["content"][0]["text"]) == (
        "TOOL_FAILED",
        "it went wrong",
    )


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def meta_of(service: Service, headers: dict[str, bytes]) -> dict[str, object]:
    """Ask the server which ``_meta`` it got for a request with these headers."""
    body = {"tool_name": "s1:meta", "user": {"user_id": "u", "tenant_id": "t"}, "trace_id": "t-1"}
    raw = [(name.encode(), value) for name, value in headers.items()]
    response = await service.http.post(EXECUTE, json=body, headers=raw)
    meta: dict[str, object] = response.json()["result"]["structured_content"]
    return meta


async def test_the_trace_id_goes_on_to_the_server(service: Service) -> None:
    assert "t-1" in (await meta_of(service, {})).values()


async def test_trace_context_goes_on_to_the_server(service: Service) -> None:
    context = {"traceparent": TRACEPARENT, "tracestate": "a=1", "baggage": "b=2"}
    meta = await meta_of(service, {name: value.encode() for name, value in context.items()})
    assert {name: meta.get(name) for name in context} == context


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": b"00-nonsense", "tracestate": b"a=1"},
        {"tracestate": b"a=1"},
        {"baggage": b"b=\xfc"},
        {"baggage": b"b" * 8193},
    ],
    ids=["bad traceparent", "no traceparent", "not ASCII", "too long"],
)
async def test_bad_trace_context_stays_here(service: Service, headers: dict[str, bytes]) -> None:
    meta = await meta_of(service, headers)
    assert not {"traceparent", "tracestate", "baggage"} & meta.keys()


@pytest.mark.requirement("P-09")
async def test_two_servers_with_one_tool_name_each_get_their_own_calls() -> None:
    async with running_raw(name="one") as one, running_raw(name="two") as two:
        config = Config(
            servers={"a": one.entry, "a-b": two.entry},
            presets=[make_preset(tools=[("a", "whoami"), ("a-b", "whoami")])],
        )
        async with running(config=config) as service:
            answers = [
                (await service.result(f"{server}:whoami"))["structured_content"]["server"]
                for server in ("a", "a-b")
            ]
            assert (await service.listed(), answers) == (["a:whoami", "a-b:whoami"], ["one", "two"])


async def test_the_list_is_the_same_bytes_each_time(service: Service) -> None:
    first, second = [(await service.http.get(TOOLS)).content for _ in range(2)]
    assert first == second


async def test_listed_and_callable_are_the_same(service: Service) -> None:
    candidates = [f"s1:{name}" for name in ("echo", "meta", "whoami", "counter", "env", "odd:one")]
    refused = {name for name in candidates if await service.code(name) == "TOOL_NOT_ALLOWED"}
    assert set(candidates) - refused == set(candidates) & set(await service.listed())


@pytest.mark.requirement("P-19")
async def test_without_a_preset_every_downstream_tool_is_refused(server: RawServer) -> None:
    async with running(config=Config(servers={"s1": server.entry})) as service:
        assert (await service.listed(), await service.code("s1:echo")) == ([], "TOOL_NOT_ALLOWED")


@pytest.mark.requirement("P-19")
async def test_without_a_preset_the_document_tools_stay(server: RawServer) -> None:
    async with running(config=Config(servers={"s1": server.entry})) as service:
        assert await service.code("read_doc_metadata", {"doc_id": "doc_1"}) == "OK"
