"""Calls for a server in its first connection attempt wait for it (contract §6).

Until then only the items that the active preset names are known."""

import asyncio

import pytest

from tests.api.blocked_service import UNREACHABLE_SERVER, WORK, BlockedService, code_of, held
from tests.support.configuration import Config, Json, make_agent, make_preset, write_json
from tests.support.mcp_servers.blocked_server import running_blocked
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import BATCH, CONFIG_DIR, TOOLS, running


async def test_a_call_waits_for_its_server() -> None:
    async with held() as it, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(it.service.code("s1:echo", {"text": "hi"}))
        await it.waiting()
        it.server.release()
    assert call.result() == "OK"


@pytest.mark.parametrize("agent", ["a", None])
@pytest.mark.parametrize("name", ["s1:echo", "s1__echo", "echo"])
async def test_every_spelling_of_a_tool_name_waits(name: str, agent: str | None) -> None:
    more = {} if agent is None else {"agent": agent}
    async with (
        held(agents=[make_agent("a")], require_agent=False) as it,
        asyncio.TaskGroup() as tasks,
    ):
        call = tasks.create_task(it.service.code(name, {"text": "hi"}, **more))
        await it.waiting()
        it.server.release()
    assert call.result() == "OK"


@pytest.mark.requirement("A-10", "A-19")
async def test_a_pending_server_keeps_a_bare_name_ambiguous() -> None:
    preset = make_preset(tools=[("s1", "whoami"), ("s2", "whoami")])
    async with running_blocked() as hung, running_raw() as quick:
        config = Config(servers={"s1": hung.entry, "s2": quick.entry}, presets=[preset])
        async with running(config=config, discovered=False) as service:
            assert await service.code("s2:whoami") == "OK"
            shown = (await service.get(TOOLS, name_style="bare"))["tools"]
            assert "s2:whoami" in [tool["name"] for tool in shown]
            assert await service.code("whoami") == "AMBIGUOUS_NAME"


async def test_a_tool_that_the_connected_server_does_not_offer_is_refused() -> None:
    preset = make_preset(tools=[("s1", "gone")])
    async with held(preset=preset) as it, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(it.service.code("s1:gone"))
        await it.waiting()
        it.server.release()
    assert call.result() == "TOOL_NOT_ALLOWED"


async def test_a_batch_waits() -> None:
    calls = [{"tool_name": "s1:echo", "arguments": {"text": str(n)}} for n in range(3)]
    async with held() as it, asyncio.TaskGroup() as tasks:
        batch = tasks.create_task(it.post(BATCH, calls=[*calls, {"tool_name": "s1:other"}]))
        await it.waiting(3)
        it.server.release()
    assert [code_of(one) for one in batch.result()["results"]] == [
        *["OK"] * 3,
        "TOOL_NOT_ALLOWED",
    ]


@pytest.mark.parametrize("prompts", [None, [("s1", "plain")]], ids=["open", "named"])
async def test_a_prompt_waits(prompts: list[tuple[str, str]] | None) -> None:
    preset = make_preset(tools=[("s1", "echo")], prompts=prompts)
    async with held(preset=preset) as it, asyncio.TaskGroup() as tasks:
        got = [tasks.create_task(it.prompt(name)) for name in ("plain", "s1:plain")]
        await it.waiting(2)
        it.server.release()
    assert [code_of(task.result()) for task in got] == ["OK", "OK"]


@pytest.mark.parametrize(
    ("resources", "uri"),
    [
        (None, "raw://text"),
        ([("s1", "raw://text")], "raw://text"),
        (None, "raw://item/7"),
        ([("s1", "raw://item/{id}")], "raw://item/7"),
        ([("s1", "raw://item/{id}")], "s1:raw://item/7"),
    ],
)
async def test_a_resource_waits(resources: list[tuple[str, str]] | None, uri: str) -> None:
    preset = make_preset(tools=[("s1", "echo")], resources=resources)
    async with held(preset=preset) as it, asyncio.TaskGroup() as tasks:
        read = tasks.create_task(it.resource(uri))
        await it.waiting()
        it.server.release()
    assert code_of(read.result()) == "OK"


async def test_an_unknown_prompt_is_not_found_after_the_servers_in_scope_connected() -> None:
    async with held() as it, asyncio.TaskGroup() as tasks:
        got = tasks.create_task(it.prompt("nowhere"))
        await it.waiting()
        it.server.release()
    assert code_of(got.result()) == "PROMPT_NOT_FOUND"


@pytest.mark.parametrize("name", ["s1:other", "s2:echo", "other", "nowhere"])
async def test_a_tool_outside_the_preset_is_refused_immediately(name: str) -> None:
    async with held() as it:
        code = "TOOL_NOT_ALLOWED" if ":" in name else "TOOL_NOT_FOUND"
        assert await it.service.code(name) == code


async def test_an_item_that_a_server_excludes_is_refused_immediately() -> None:
    async with held(entry={"exclude": ["echo"]}) as it:
        assert await it.service.code("s1:echo") == "TOOL_NOT_ALLOWED"


@pytest.mark.requirement("A-11")
@pytest.mark.parametrize(
    "narrowed",
    [{"client_ids": []}, {"exclude": ["echo", "plain", "raw://text"]}, {"preset": "other"}],
    ids=["client_ids", "exclude_components", "preset"],
)
async def test_an_item_hidden_from_the_agent_is_refused_immediately(narrowed: Json) -> None:
    other = make_preset("other", tools=[("s2", "echo")])
    async with held(agents=[make_agent("a", **narrowed)]) as it:
        write_json(CONFIG_DIR / "preset_other.json", other)
        assert await it.service.code("s1:echo", agent="a") == "TOOL_NOT_ALLOWED"
        assert code_of(await it.prompt("plain", agent="a")).startswith("PROMPT_NOT_")
        assert code_of(await it.resource("raw://text", agent="a")).startswith("RESOURCE_NOT_")
        assert await it.service.code("s1:echo", agent="b") == "AGENT_NOT_FOUND"
        assert await it.service.code("s1:echo") == "AGENT_REQUIRED"


async def test_an_unknown_name_does_not_wait_if_the_preset_restricts_every_kind() -> None:
    preset = make_preset(tools=[("s1", "echo")], prompts=[], resources=[("s1", "raw://other")])
    async with held(preset=preset) as it:
        assert code_of(await it.prompt("plain")) == "PROMPT_NOT_FOUND"
        assert code_of(await it.resource("raw://text")) == "RESOURCE_NOT_FOUND"


async def test_a_document_tool_does_not_wait() -> None:
    async with held() as it:
        metadata = await it.service.execute("read_doc_metadata", {"doc_id": "doc_1"})
        assert code_of(metadata) == "OK"


async def test_a_call_for_an_unreachable_server_is_retryable() -> None:
    async with held() as it, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(it.service.execute("s1:echo"))
        await it.waiting()
        await it.server.stop()
    error = call.result()["error"]
    assert (error["code"], error["retryable"]) == ("SERVER_UNAVAILABLE", True)
    assert error["retry_after_s"] > 0


async def test_a_call_waits_no_longer_than_its_timeout() -> None:
    async with held(entry={"requestTimeoutSeconds": 0.2}) as it:
        error = (await it.service.execute("s1:echo"))["error"]
        assert (error["code"], error["retry_after_s"] > 0) == ("SERVER_UNAVAILABLE", True)
        assert error["details"] == {"server_id": "s1"}


async def test_waiting_calls_are_in_flight() -> None:
    async with (
        held(entry={"maxCallsInFlight": 2, "maxCallsInFlightPerTenant": 2}) as it,
        asyncio.TaskGroup() as tasks,
    ):
        waiting = [tasks.create_task(it.service.code("s1:echo", {"text": "hi"})) for _ in "12"]
        await it.waiting(2)
        assert await it.service.code("s1:echo") == "SERVER_BUSY"
        it.server.release()
    assert [task.result() for task in waiting] == ["OK", "OK"]


async def test_a_waiting_call_is_not_charged_before_it_may_run() -> None:
    async with held(
        entry={"requestTimeoutSeconds": 0.2}, unlimited=False, rate_limit_tenant_calls=1
    ) as it:
        codes = [await it.service.code("s1:echo") for _ in range(3)]
        assert codes == ["SERVER_UNAVAILABLE"] * 3
        assert await it.service.code("list_available_tools") == "OK"


async def test_a_call_that_is_cancelled_while_waiting_leaves_nothing_behind() -> None:
    async with held(entry={"maxCallsInFlight": 1}) as it:
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(it.service.code("s1:echo"))
            await it.waiting()
            call.cancel()
        await it.waiting(0)
        async with asyncio.TaskGroup() as tasks:
            another = tasks.create_task(it.service.code("s1:echo", {"text": "hi"}))
            await it.waiting()
            it.server.release()
        assert another.result() == "OK"


async def test_a_call_waits_only_for_its_candidate_servers() -> None:
    preset = make_preset(tools=[("s1", "echo"), ("s2", "echo")])
    async with running_blocked() as hung, running_raw() as quick:
        config = Config(servers={"s1": hung.entry, "s2": quick.entry}, presets=[preset])
        async with running(config=config, discovered=False) as service:
            assert await service.code("s2:echo", {"text": "hi"}) == "OK"
            it = BlockedService(service, hung)
            assert code_of(await it.prompt("plain")) == "OK"


async def test_a_waiting_call_ends_when_its_server_is_removed() -> None:
    async with held() as it, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(it.service.code("s1:echo"))
        await it.waiting()
        write_json(CONFIG_DIR / "mcp.json", {"mcpServers": {}})
    assert call.result() == "TOOL_NOT_ALLOWED"


async def test_a_call_waits_for_the_session_of_a_changed_entry() -> None:
    async with running_raw() as other, held() as it, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(it.service.code("s1:echo", {"text": "hi"}))
        await it.waiting()
        write_json(CONFIG_DIR / "mcp.json", {"mcpServers": {"s1": other.entry}})
    assert call.result() == "OK"


async def test_a_server_that_failed_its_first_attempt_is_not_waited_for() -> None:
    config = Config(servers={"s1": UNREACHABLE_SERVER}, presets=[WORK])
    async with running(config=config) as service:
        assert await service.code("s1:echo") == "SERVER_UNAVAILABLE"
