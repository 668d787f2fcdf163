"""A preset that changes while the link is up: sessions are told, and list the new view (W-19)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.connector.backend_link import ERAS, LISTEN_ID, Linked, begun, linked, listen
from tests.support.configuration import make_agent, make_preset, write_json
from tests.support.http_api import EVERYTHING, OWN, config_of, offer
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.remote_backend.backend import Backend
from tests.support.remote_backend.session import LEGACY, MODERN, Session
from tests.support.service import ACTIVE, CONFIG_DIR, Service

eras = pytest.mark.parametrize("era", ERAS)

ONLY_ALPHA = make_preset("alpha", tools=[("a", "alpha")], prompts=[], resources=[])
ONLY_B = make_preset("only_b", tools=[("a-b", "whoami"), ("a-b", "beta")])
LESS_OF_B = make_preset("less_of_b", tools=[("a-b", "whoami")])
SAME_TOOLS = EVERYTHING | {"id": "same", "prompts": []}
PRESETS = (EVERYTHING, ONLY_ALPHA, ONLY_B, LESS_OF_B, SAME_TOOLS)
AGENTS = (make_agent("only_b", client_ids=["a-b"]),)
ALL = ("prompts", "resources", "tools")
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


@asynccontextmanager
async def in_front_of_two(**options: Any) -> AsyncIterator[Linked]:
    """Serve the servers ``a`` and ``a-b`` to the backend."""
    async with (
        running_raw(name="a", **offer(OWN["a"])) as a,
        running_raw(name="a-b", **offer(OWN["a-b"])) as a_b,
        linked(
            config=config_of(a, a_b, *AGENTS, presets=PRESETS), require_agent=False, **options
        ) as both,
    ):
        yield both


async def switch(service: Service, preset_id: str) -> None:
    response = await service.http.put(ACTIVE, json={"preset_id": preset_id, "persist": False})
    assert response.status_code == 200, response.text


async def hearing(backend: Backend, era: str) -> Session:
    """Make a session that has listed all there is, and hears of changes."""
    session = await begun(backend, era)
    for method in LISTS:
        await session.result(method)
    if era == MODERN:
        await listen(
            session, toolsListChanged=True, promptsListChanged=True, resourcesListChanged=True
        )
    return session


async def told(session: Session, *kinds: str) -> list[str]:
    """Give what it is told to have changed, sorted, once ``kinds`` are among it."""
    heard: list[str] = []
    while not set(kinds) <= set(heard):
        message = await session.receive()
        kind, _, changed = message["method"].removeprefix("notifications/").partition("/")
        assert changed == "list_changed", message
        heard.append(kind)
    return sorted(heard)


async def downstream_tools(session: Session) -> list[str]:
    tools = (await session.result("tools/list"))["tools"]
    return [tool["name"] for tool in tools if ":" in tool["name"]]


@eras
@pytest.mark.requirement("W-19")
async def test_a_session_is_told_of_another_preset_and_lists_the_new_view(era: str) -> None:
    async with in_front_of_two() as (service, backend):
        session = await hearing(backend, era)
        await switch(service, "alpha")
        assert await told(session, *ALL) == [*ALL]
        assert await downstream_tools(session) == ["a:alpha"]
        assert (await session.result("prompts/list"))["prompts"] == []


@eras
@pytest.mark.requirement("W-19")
async def test_a_session_is_told_of_an_edited_preset_and_lists_the_new_view(era: str) -> None:
    async with in_front_of_two() as (_, backend):
        session = await hearing(backend, era)
        write_json(CONFIG_DIR / "preset_work.json", make_preset(tools=[("a", "alpha")]))
        await told(session, "tools")
        assert await downstream_tools(session) == ["a:alpha"]


@pytest.mark.requirement("W-19")
async def test_every_session_is_told_whichever_its_era() -> None:
    async with in_front_of_two() as (service, backend):
        sessions = [await hearing(backend, era) for era in (*ERAS, *ERAS)]
        await switch(service, "alpha")
        heard = await asyncio.gather(*(told(session, *ALL) for session in sessions))
    assert heard == [[*ALL]] * 4


@pytest.mark.requirement("W-19")
async def test_a_stream_of_changes_marks_them_with_its_own_id() -> None:
    async with in_front_of_two() as (service, backend):
        session = await hearing(backend, MODERN)
        await switch(service, "alpha")
        message = await session.receive()
    meta = message["params"]["_meta"]
    assert meta["io.modelcontextprotocol/subscriptionId"] == LISTEN_ID


@eras
@pytest.mark.requirement("W-19")
async def test_only_the_lists_that_changed_are_told(era: str) -> None:
    """Were more told of the first change, that would be heard before what the second one is."""
    async with in_front_of_two() as (service, backend):
        session = await hearing(backend, era)
        await switch(service, "same")
        assert await told(session, "prompts") == ["prompts"]
        await switch(service, "work")
        assert await told(session, "prompts") == ["prompts"]


@eras
@pytest.mark.requirement("W-19")
async def test_a_session_whose_view_did_not_change_is_not_told(era: str) -> None:
    """Were it told of the first two changes, that would be heard before what the last one is."""
    async with in_front_of_two(remote_agent="only_b") as (service, backend):
        session = await hearing(backend, era)
        await switch(service, "only_b")
        await switch(service, "work")
        await switch(service, "less_of_b")
        assert await told(session, "tools") == ["tools"]
        assert await downstream_tools(session) == ["a-b:whoami"]


@pytest.mark.requirement("W-19")
async def test_a_session_of_the_newer_era_that_does_not_listen_is_not_told() -> None:
    async with in_front_of_two() as (service, backend):
        silent, listening = await begun(backend), await hearing(backend, MODERN)
        await silent.result("tools/list")
        await switch(service, "alpha")
        await told(listening, *ALL)
        assert await downstream_tools(silent) == ["a:alpha"]
    assert [message for message in silent.messages if "method" in message] == []


async def test_a_stream_of_changes_tells_what_was_asked_for_alone() -> None:
    async with in_front_of_two() as (service, backend):
        session = await begun(backend)
        acknowledged = await listen(session, promptsListChanged=True)
        await switch(service, "alpha")
        assert await told(session, "prompts") == ["prompts"]
        await switch(service, "work")
        assert await told(session, "prompts") == ["prompts"]
    assert acknowledged["params"]["notifications"] == {"promptsListChanged": True}


async def test_a_stream_of_changes_that_is_cancelled_tells_no_more() -> None:
    async with in_front_of_two() as (service, backend):
        leaving, staying = await hearing(backend, MODERN), await hearing(backend, MODERN)
        await leaving.notify("notifications/cancelled", {"requestId": LISTEN_ID})
        await leaving.result("tools/list")
        await switch(service, "alpha")
        await told(staying, *ALL)
        await leaving.result("tools/list")
    assert "list_changed" not in str(leaving.messages)


@pytest.mark.requirement("W-19")
async def test_what_a_server_adds_to_the_view_is_told() -> None:
    async with running_raw(name="a", **offer("alpha")) as a, running_raw(**offer("beta")) as a_b:
        preset = make_preset(tools=[("a", "alpha"), ("a", "echo")])
        async with linked(config=config_of(a, a_b, presets=(preset,))) as (_, backend):
            session = await hearing(backend, LEGACY)
            a.script.swap("echo")
            await told(session, "tools")
            assert "a:echo" in await downstream_tools(session)
