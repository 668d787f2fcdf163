"""Tools of real downstream servers: listed, called and refused by the active preset."""

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
async def service(server: RawServer, shared_settings: Json) -> AsyncIterator[Service]:
    allowed = ("echo", "meta", "is_error", "odd:one")
    config = Config(
        servers={"s1": server.entry},
        presets=[make_preset(tools=[("s1", name) for name in allowed])],
    )
    async with running(config=config, **shared_settings) as started:
        yield started


@pytest.mark.requirement("P-06")
async def test_a_referenced_tool_is_listed_with_its_qualified_name(service: Service) -> None:
    assert await service.listed() == ["s1:echo", "s1:meta", "s1:is_error", "s1:odd:one"]


@pytest.mark.requirement("P-06")
async def test_other_fields_of_a_listed_descriptor_are_unchanged(service: Service) -> None:
    tools = {tool["name"]: tool for tool in (await service.get(TOOLS))["tools"]}
    assert tools["s1:odd:one"] == {**ODD_TOOL, "name": "s1:odd:one"}


@pytest.mark.requirement("P-08", "F-09")
async def test_a_tool_outside_the_preset_is_refused(service: Service, server: RawServer) -> None:
    envelope = await service.execute("s1:whoami")
    assert (envelope["error"]["code"], server.script.calls["whoami"]) == ("TOOL_NOT_ALLOWED", 0)


async def test_an_unknown_tool_is_refused_with_the_same_message(service: Service) -> None:
    hidden, nowhere = [
        (await service.execute(name))["error"]["message"] for name in ("s1:whoami", "s1:nosuch")
    ]
    assert hidden.replace("whoami", "nosuch") == nowhere


@pytest.mark.requirement("P-08", "F-16")
async def test_each_call_of_a_batch_is_checked_separately(service: Service) -> None:
    calls = [{"tool_name": name} for name in ("s1:whoami", "s1:echo", "s1:hang")]
    body = {"calls": calls, "user": {"user_id": "u", "tenant_id": "t"}}
    results = (await service.http.post(BATCH, json=body)).json()["results"]
    assert [result["status"] for result in results] == ["error", "ok", "error"]


@pytest.mark.requirement("F-06", "F-17")
async def test_the_server_receives_the_bare_name_and_unchanged_arguments(service: Service) -> None:
    arguments = {"text": "3", "other": [1, None, {"deep": "ü"}], "number": 1.0}
    result = await service.result("s1:echo", arguments)
    assert result["structured_content"] == arguments


@pytest.mark.requirement("F-08")
async def test_a_tool_with_a_colon_is_called_by_its_qualified_name(service: Service) -> None:
    result = await service.result("s1:odd:one")
    assert result["structured_content"]["tool"] == "odd:one"


@pytest.mark.parametrize("name", ["s1__echo", "echo"])
async def test_a_tool_can_be_called_by_alias_and_by_bare_name(service: Service, name: str) -> None:
    result = await service.result(name, {"text": "hi"})
    assert result["structured_content"] == {"text": "hi"}


@pytest.mark.parametrize("name", ["ech", ":echo", "s1:"])
@pytest.mark.requirement("F-07")
async def test_the_error_for_a_malformed_name_shows_the_format(service: Service, name: str) -> None:
    error = (await service.execute(name))["error"]
    assert (error["code"], "server_id:tool" in error["details"]["expected"]) == (
        "TOOL_NOT_FOUND",
        True,
    )


@pytest.mark.requirement("F-10")
async def test_an_unknown_server_is_refused(service: Service) -> None:
    assert await service.code("s2:echo") == "TOOL_NOT_ALLOWED"


async def test_a_server_error_keeps_its_content(service: Service) -> None:
    error = (await service.execute("s1:is_error"))["error"]
    assert (error["code"], error["details"]["content"][0]["text"]) == (
        "TOOL_FAILED",
        "it went wrong",
    )


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def meta_of(service: Service, headers: dict[str, bytes]) -> dict[str, object]:
    """Return the ``_meta`` that the server received for a request with these headers."""
    body = {"tool_name": "s1:meta", "user": {"user_id": "u", "tenant_id": "t"}, "trace_id": "t-1"}
    raw = [(name.encode(), value) for name, value in headers.items()]
    response = await service.http.post(EXECUTE, json=body, headers=raw)
    meta: dict[str, object] = response.json()["result"]["structured_content"]
    return meta


async def test_the_trace_id_is_forwarded_to_the_server(service: Service) -> None:
    assert "t-1" in (await meta_of(service, {})).values()


async def test_trace_context_is_forwarded_to_the_server(service: Service) -> None:
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
async def test_invalid_trace_context_is_not_forwarded(
    service: Service, headers: dict[str, bytes]
) -> None:
    meta = await meta_of(service, headers)
    assert not {"traceparent", "tracestate", "baggage"} & meta.keys()


@pytest.mark.requirement("P-09")
async def test_servers_with_the_same_tool_name_receive_their_own_calls() -> None:
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


async def test_repeated_lists_are_byte_identical(service: Service) -> None:
    first, second = [(await service.http.get(TOOLS)).content for _ in range(2)]
    assert first == second


async def test_exactly_the_listed_tools_can_be_called(service: Service) -> None:
    candidates = [f"s1:{name}" for name in ("echo", "meta", "whoami", "counter", "env", "odd:one")]
    refused = {name for name in candidates if await service.code(name) == "TOOL_NOT_ALLOWED"}
    assert set(candidates) - refused == set(candidates) & set(await service.listed())


@pytest.mark.requirement("P-19")
async def test_without_a_preset_every_downstream_tool_is_refused(server: RawServer) -> None:
    async with running(config=Config(servers={"s1": server.entry})) as service:
        assert (await service.listed(), await service.code("s1:echo")) == ([], "TOOL_NOT_ALLOWED")


@pytest.mark.requirement("P-19")
async def test_without_a_preset_the_document_tools_stay_available(server: RawServer) -> None:
    async with running(config=Config(servers={"s1": server.entry})) as service:
        assert await service.code("read_doc_metadata", {"doc_id": "doc_1"}) == "OK"
