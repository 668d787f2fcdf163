"""When a preset changes while the link is up, sessions are notified and list its view (W-19)."""

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
from tests.support.remote_backend.session import MODERN, Session
from tests.support.service import ACTIVE, CONFIG_DIR, Service

eras = pytest.mark.parametrize("era", ERAS)

PART = make_preset(
    "part", tools=[("a", "whoami")], prompts=[("a", "alpha")], resources=[("a", "raw://alpha")]
)
ONLY_ALPHA = make_preset("alpha", tools=[("a", "alpha")], prompts=[], resources=[])
ONLY_B = make_preset("only_b", tools=[("a-b", "whoami"), ("a-b", "beta")])
LESS_OF_B = make_preset("less_of_b", tools=[("a-b", "whoami")])
PRESETS = (EVERYTHING, ONLY_ALPHA, ONLY_B, LESS_OF_B)
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


async def subscribed(backend: Backend, era: str) -> Session:
    """Start a session, list everything, and subscribe to changes."""
    session = await begun(backend, era)
    for method in LISTS:
        await session.result(method)
    if era == MODERN:
        await listen(
            session, toolsListChanged=True, promptsListChanged=True, resourcesListChanged=True
        )
    return session


async def changed_lists(session: Session, *kinds: str) -> list[str]:
    """Return the lists that it was notified about, sorted, once they include ``kinds``."""
    received: list[str] = []
    while not set(kinds) <= set(received):
        message = await session.receive()
        kind, _, changed = message["method"].removeprefix("notifications/").partition("/")
        assert changed == "list_changed", message
        received.append(kind)
    return sorted(received)


async def downstream_tools(session: Session) -> list[str]:
    tools = (await session.result("tools/list"))["tools"]
    return [tool["name"] for tool in tools if ":" in tool["name"]]


@eras
@pytest.mark.requirement("W-06")
async def test_the_backend_sees_only_the_active_presets_items(era: str) -> None:
    async with (
        running_raw(name="a", **offer(OWN["a"])) as a,
        running_raw(name="a-b", **offer(OWN["a-b"])) as a_b,
        linked(config=config_of(a, a_b, presets=(PART, EVERYTHING))) as (_, backend),
    ):
        session = await begun(backend, era)
        tools = [tool["name"] for tool in (await session.result("tools/list"))["tools"]]
        prompts = [prompt["name"] for prompt in (await session.result("prompts/list"))["prompts"]]
        resources = [
            resource["uri"] for resource in (await session.result("resources/list"))["resources"]
        ]
    assert [name for name in tools if ":" in name] == ["a:whoami"]
    assert (prompts, resources) == (["alpha"], ["raw://alpha"])


@eras
@pytest.mark.requirement("W-19")
async def test_a_session_is_notified_of_another_preset_and_lists_the_new_view(era: str) -> None:
    async with in_front_of_two() as (service, backend):
        session = await subscribed(backend, era)
        await switch(service, "alpha")
        assert await changed_lists(session, *ALL) == [*ALL]
        assert await downstream_tools(session) == ["a:alpha"]
        assert (await session.result("prompts/list"))["prompts"] == []


@eras
@pytest.mark.requirement("W-19")
async def test_tool_names_follow_the_profile_of_the_connectors_agent(era: str) -> None:
    async with in_front_of_two(remote_agent="only_b") as (_, backend):
        session = await subscribed(backend, era)
        profile = make_agent("only_b", client_ids=["a-b"], name_style="alias")
        write_json(CONFIG_DIR / "agents.json", {"agents": [profile]})
        assert await changed_lists(session, "tools") == ["tools"]
        tools = (await session.result("tools/list"))["tools"]
    assert [tool["name"] for tool in tools][-2:] == ["a-b__whoami", "a-b__beta"]


@pytest.mark.requirement("W-19")
async def test_sessions_of_every_era_are_notified() -> None:
    async with in_front_of_two() as (service, backend):
        sessions = [await subscribed(backend, era) for era in (*ERAS, *ERAS)]
        await switch(service, "alpha")
        received = await asyncio.gather(*(changed_lists(session, *ALL) for session in sessions))
    assert received == [[*ALL]] * 4


@pytest.mark.requirement("W-19")
async def test_a_stream_of_changes_marks_them_with_its_own_id() -> None:
    async with in_front_of_two() as (service, backend):
        session = await subscribed(backend, MODERN)
        await switch(service, "alpha")
        message = await session.receive()
    meta = message["params"]["_meta"]
    assert meta["io.modelcontextprotocol/subscriptionId"] == LISTEN_ID


@eras
@pytest.mark.requirement("W-19")
async def test_a_session_without_visible_changes_is_not_notified(era: str) -> None:
    """A notification of the first two changes would arrive before that of the last one."""
    async with in_front_of_two(remote_agent="only_b") as (service, backend):
        session = await subscribed(backend, era)
        await switch(service, "only_b")
        await switch(service, "work")
        await switch(service, "less_of_b")
        assert await changed_lists(session, "tools") == ["tools"]
        assert await downstream_tools(session) == ["a-b:whoami"]


async def test_a_stream_of_changes_has_only_the_requested_kinds() -> None:
    async with in_front_of_two() as (service, backend):
        session = await begun(backend)
        acknowledged = await listen(session, promptsListChanged=True)
        await switch(service, "alpha")
        assert await changed_lists(session, "prompts") == ["prompts"]
        await switch(service, "work")
        assert await changed_lists(session, "prompts") == ["prompts"]
    assert acknowledged["params"]["notifications"] == {"promptsListChanged": True}


async def test_a_cancelled_stream_of_changes_sends_nothing_more() -> None:
    async with in_front_of_two() as (service, backend):
        leaving, staying = await subscribed(backend, MODERN), await subscribed(backend, MODERN)
        await leaving.notify("notifications/cancelled", {"requestId": LISTEN_ID})
        await leaving.result("tools/list")
        await switch(service, "alpha")
        await changed_lists(staying, *ALL)
        await leaving.result("tools/list")
    assert "list_changed" not in str(leaving.messages)
