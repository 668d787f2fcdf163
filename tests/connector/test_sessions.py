import asyncio
from typing import Any

import pytest

from tests.connector.backend_link import ERAS, begun, linked, linked_to_one, listen, until_running
from tests.connector.link_checks import until_status
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Json
from tests.support.relay_samples import LOG_LINES
from tests.support.remote_backend.session import ENVELOPE, LEGACY, MODERN, Session
from tests.support.service import REMOTE, Service, eventually

eras = pytest.mark.parametrize("era", ERAS)

UNOPENED = -32600
"""The response to a request of the older eras before initialize."""
NO_REQUESTS: dict[str, Json] = {
    "a notification": {"jsonrpc": "2.0", "method": "notifications/initialized"},
    "cancelling": {
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
    },
    "a request whose id is true": {"jsonrpc": "2.0", "id": True, "method": "tools/list"},
    "a request whose id is null": {"jsonrpc": "2.0", "id": None, "method": "tools/list"},
    "a result": {"jsonrpc": "2.0", "id": 1, "result": {}},
    "an error": {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
}  # fmt: skip


async def session_count(service: Service) -> int:
    count: int = (await service.get(REMOTE))["sessions"]
    return count


async def until_sessions_are(service: Service, count: int) -> None:
    await until_status(service, lambda status: status["sessions"] == count)


async def is_open(session: Session) -> bool:
    """Return whether a session of the older eras is still the initialized one."""
    answer = await session.request("tools/list")
    assert "result" in answer or answer["error"]["code"] == UNOPENED, answer
    return "result" in answer


def is_refused(answer: Json) -> bool:
    error = answer.get("error", {})
    return (error.get("code"), error.get("data", {}).get("code")) == (-32603, "NO_ROOM")


@eras
async def test_a_session_begins_with_its_first_request(era: str) -> None:
    async with linked() as (service, backend):
        before = await session_count(service)
        await begun(backend, era)
        assert (before, await session_count(service)) == (0, 1)


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize("message", NO_REQUESTS.values(), ids=NO_REQUESTS.keys())
async def test_an_invalid_request_starts_no_session_and_is_logged(message: Json) -> None:
    async with linked() as (service, backend):
        with capture_logs() as lines:
            await backend.session("unknown").send(message)
            await backend.session("known").result("tools/list")
        assert await session_count(service) == 1
        assert not backend.strays
    assert [line["event"] for line in lines].count("remote.frame_ignored") == 1


async def test_initialize_opens_only_its_own_session() -> None:
    async with linked() as (_, backend):
        one, other = await begun(backend, LEGACY), backend.session(era=LEGACY)
        assert [await is_open(session) for session in (one, other)] == [True, False]


async def test_each_session_has_its_own_log_level() -> None:
    async with linked_to_one("notify", raw={"sse": True}) as (_, backend, _):
        sessions = [await begun(backend, LEGACY) for _ in range(2)]
        for session, level in zip(sessions, ("critical", "warning"), strict=True):
            await session.result("logging/setLevel", {"level": level})
        for session in sessions:
            await session.call("s1:notify", {"messages": LOG_LINES})
    levels = [
        [it["params"]["level"] for it in session.messages if "method" in it] for session in sessions
    ]
    assert levels == [["critical"], ["warning", "critical"]]


async def test_sessions_of_both_eras_list_the_same_tools() -> None:
    async with linked() as (_, backend):
        lists = [await (await begun(backend, era)).result("tools/list") for era in ERAS]
    assert lists[0]["tools"] == lists[1]["tools"]


@pytest.mark.parametrize("method", ["ping", "tools/list", "initialize"])
async def test_a_session_of_the_newer_era_keeps_it_after_a_request_of_the_older(
    method: str,
) -> None:
    async with linked() as (_, backend):
        session = backend.session()
        await session.result("tools/list")
        assert "error" in await session.request(method, era=LEGACY)
        assert "result" in await session.request("tools/list")


async def test_a_session_over_the_limit_ends_the_longest_idle_one() -> None:
    async with linked(max_sessions=2) as (service, backend):
        first, second = await begun(backend, LEGACY), await begun(backend, LEGACY)
        await first.result("ping")
        third = await begun(backend, LEGACY)
        assert await session_count(service) == 2
        assert [await is_open(session) for session in (first, third)] == [True, True]
        assert not await is_open(second)


async def test_a_session_over_the_limit_ends_none_that_is_in_use() -> None:
    async with (
        linked_to_one("hang", max_sessions=2) as (_, backend, server),
        asyncio.TaskGroup() as tasks,
    ):
        used, unused = await begun(backend, LEGACY), await begun(backend, LEGACY)
        calling = tasks.create_task(used.call("s1:hang"))
        await until_running(server)
        await unused.result("ping")
        await begun(backend, LEGACY)
        assert await is_open(used)
        calling.cancel()


@eras
async def test_a_further_session_is_refused_while_all_are_in_use(era: str) -> None:
    async with (
        linked_to_one("hang", "echo", max_sessions=2) as (service, backend, server),
        asyncio.TaskGroup() as tasks,
    ):
        sessions = [await begun(backend, era) for _ in range(2)]
        calls = [tasks.create_task(session.call("s1:hang")) for session in sessions]
        await until_running(server, 2)
        assert is_refused(await backend.session().request("tools/list"))
        assert await session_count(service) == 2
        await sessions[0].notify("notifications/cancelled", {"requestId": 2})
        await until_running(server)
        assert "result" in await backend.session().request("tools/list")
        for call in calls:
            call.cancel()


async def test_a_session_that_only_listens_may_be_ended_for_another() -> None:
    async with linked(max_sessions=1) as (_, backend):
        await listen(backend.session(), toolsListChanged=True)
        assert (await backend.session().result("tools/list"))["tools"]


async def test_a_session_that_is_idle_too_long_ends() -> None:
    async with linked(session_idle_s=0.1) as (service, backend):
        session = await begun(backend, LEGACY)
        await until_sessions_are(service, 0)
        assert not await is_open(session)


async def test_a_session_with_a_running_call_is_not_idle() -> None:
    async with (
        linked_to_one("hang", session_idle_s=0.5) as (service, backend, server),
        asyncio.TaskGroup() as tasks,
    ):
        used, idle = backend.session(), backend.session()
        calling = tasks.create_task(used.call("s1:hang"))
        await idle.result("tools/list")
        await until_running(server)
        await until_sessions_are(service, 1)
        assert (await service.get(REMOTE))["open_requests"] == 1
        calling.cancel()


async def test_a_session_that_listens_is_not_idle() -> None:
    async with linked(session_idle_s=0.5) as (service, backend):
        await listen(backend.session())
        await backend.session().result("tools/list")
        await until_sessions_are(service, 1)
        assert (await service.get(REMOTE))["open_requests"] == 1


async def test_a_session_has_at_most_64_open_requests() -> None:
    async with linked_to_one("hang") as (service, backend, server):
        session = backend.session()
        call: dict[str, Any] = {"name": "s1:hang", "arguments": {}, "_meta": ENVELOPE}
        request = {"jsonrpc": "2.0", "method": "tools/call", "params": call}
        for number in range(64):
            await session.send(request | {"id": f"call {number}"})
        await until_running(server, 64)
        assert (await service.get(REMOTE))["open_requests"] == 64
        assert is_refused(await session.request("tools/list"))
        assert "result" in await backend.session().request("tools/list")
        await session.notify("notifications/cancelled", {"requestId": "call 7"})

        async def has_capacity() -> bool:
            return "result" in await session.request("tools/list")

        await eventually(has_capacity)


@eras
async def test_a_request_cancelled_immediately_is_closed(era: str) -> None:
    async with linked_to_one("hang") as (service, backend, _):
        session = await begun(backend, era)
        call: dict[str, Any] = {"name": "s1:hang", "arguments": {}}
        call |= {"_meta": ENVELOPE} if era == MODERN else {}
        for number in range(20):
            request = {"jsonrpc": "2.0", "id": f"call {number}", "method": "tools/call"}
            await session.send(request | {"params": call})
            await session.notify("notifications/cancelled", {"requestId": f"call {number}"})
        await session.result("tools/list")
        await until_status(service, lambda status: status["open_requests"] == 0)


@pytest.mark.parametrize("second", ["7", 7], ids=repr)
async def test_a_request_with_the_id_of_an_open_one_is_ignored_and_the_first_is_answered(
    second: object,
) -> None:
    async with linked_to_one("sleep", "echo") as (_, backend, server):
        session = backend.session()
        sleep = {"name": "s1:sleep", "arguments": {"seconds": 0.3}, "_meta": ENVELOPE}
        echo = {"name": "s1:echo", "arguments": {"text": "x"}, "_meta": ENVELOPE}
        request = {"jsonrpc": "2.0", "method": "tools/call"}
        with capture_logs() as lines:
            await session.send(request | {"id": 7, "params": sleep})
            await session.send(request | {"id": second, "params": echo})
            answer = await session.receive()
            await session.result("tools/list")
        assert answer["result"]["structuredContent"] == {"seconds": 0.3}
        assert server.script.calls["echo"] == 0
    assert [line["event"] for line in lines].count("remote.frame_ignored") == 1


async def test_an_id_may_be_reused_after_its_answer() -> None:
    async with linked_to_one("echo") as (_, backend, _):
        session = backend.session()
        for text in ("one", "two"):
            params = {"name": "s1:echo", "arguments": {"text": text}, "_meta": ENVELOPE}
            request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
            await session.send(request)
            assert (await session.receive())["result"]["structuredContent"] == {"text": text}


async def test_session_names_have_at_most_256_characters() -> None:
    async with linked() as (service, backend):
        await backend.session("x" * 257).send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert (await backend.session("ü" * 256).result("tools/list"))["tools"]
        assert await session_count(service) == 1
