import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcp_tools_proxy.domain.document import Readers
from tests.connector.backend_link import ERAS, Linked, begun, linked
from tests.support.builders import make_document
from tests.support.configuration import Json, make_agent
from tests.support.http_api import EVERYTHING, ITEM_7, OWN, config_of, offer
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.raw_mcp_client import PREFIX
from tests.support.remote_backend.session import ENVELOPE, MODERN, Session

eras = pytest.mark.parametrize("era", ERAS)

MINE = make_document(tenant_id="tenant_1", doc_id="mine")
THEIRS = make_document(tenant_id="tenant_2", doc_id="theirs", title="Hush")
AGENTS = (
    make_agent("of_b", client_ids=["a-b"], exclude=["a-b:whoami", "read_doc_metadata"]),
    make_agent("of_all"),
)
FORGED = {
    **dict.fromkeys(("tenant", "tenant_id", "tenantId", "X-Tenant-Id"), "tenant_2"),
    **dict.fromkeys(("agent", "agent_id", "agentId", "X-Agent-Id"), "of_all"),
    **{f"{PREFIX}{key}": "tenant_2" for key in ("tenant", "tenantId", "tenant_id")},
    f"{PREFIX}agent": "of_all",
    "user": {"user_id": "u", "tenant_id": "tenant_2"},
    "headers": {"X-Tenant-Id": "tenant_2", "X-Agent-Id": "of_all", "Authorization": "Bearer x"},
    "Authorization": "Bearer x",
}
"""Identities that a caller tries to claim."""
PLACES = ("envelope", "message", "params", "_meta", "meta")


def code(result: Json) -> str:
    error = result["_meta"].get(f"{PREFIX}error", {"code": "OK"})
    return str(error["code"])


async def read(session: Session, doc_id: str) -> str:
    return code(await session.call("read_doc_metadata", {"doc_id": doc_id}))


def forged(session: Session, place: str, params: Json) -> Json:
    """Build a frame that calls a tool, with FORGED in one of PLACES."""
    message: Json = {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": params}
    envelope: Json = {"session_identifier": session.identifier, "message": message}
    match place:
        case "envelope":
            envelope = FORGED | {"target_server_identifier": "other"} | envelope
        case "message":
            message |= {key: value for key, value in FORGED.items() if key not in message}
        case "params":
            params |= FORGED
        case _:
            params[place] = FORGED | (ENVELOPE if place == "_meta" else {})
    params["_meta"] = ENVELOPE | params.get("_meta", {})
    return envelope


@asynccontextmanager
async def in_front_of_two(**settings: Any) -> AsyncIterator[Linked]:
    async with (
        running_raw(name="a", **offer(OWN["a"])) as a,
        running_raw(name="a-b", **offer(OWN["a-b"])) as a_b,
        linked(config=config_of(a, a_b, *AGENTS, presets=(EVERYTHING,)), **settings) as both,
    ):
        yield both


@eras
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "ACCESS_DENIED"),
        ({"remote_user_id": "ann"}, "OK"),
        ({"remote_user_roles": "x, audit"}, "OK"),
        ({"remote_user_id": "bob", "remote_user_roles": "x"}, "ACCESS_DENIED"),
    ],
    ids=["nothing", "user", "roles", "others"],
)
async def test_the_settings_set_the_user_and_the_roles(
    era: str, settings: dict[str, Any], expected: str
) -> None:
    readers = Readers(users=frozenset({"ann"}), roles=frozenset({"audit"}))
    document = make_document(tenant_id="tenant_1", doc_id="payroll", readers=readers)
    async with linked(document, remote_tenant_id="tenant_1", **settings) as (_, backend):
        session = await begun(backend, era)
        assert await read(session, "payroll") == expected


@eras
async def test_the_documents_of_the_remote_tenant_are_read(era: str) -> None:
    async with linked(MINE, THEIRS, remote_tenant_id="tenant_2") as (_, backend):
        session = await begun(backend, era)
        assert await read(session, "theirs") == "OK"


@eras
async def test_another_tenants_document_is_refused_without_showing_its_data(era: str) -> None:
    async with linked(MINE, THEIRS) as (_, backend):
        session = await begun(backend, era)
        assert [await read(session, it) for it in ("mine", "theirs")] == ["OK", "ACCESS_DENIED"]
        assert "Hush" not in str(session.messages)


async def test_the_default_tenant_applies_without_a_remote_tenant() -> None:
    options: Json = {"remote_tenant_id": None, "default_tenant_id": "tenant_2"}
    async with linked(MINE, THEIRS, **options) as (_, backend):
        session = backend.session()
        assert [await read(session, it) for it in ("mine", "theirs")] == ["ACCESS_DENIED", "OK"]


async def test_the_remote_tenant_overrides_the_default_one() -> None:
    async with linked(MINE, THEIRS, default_tenant_id="tenant_2") as (_, backend):
        session = backend.session()
        assert [await read(session, it) for it in ("mine", "theirs")] == ["OK", "ACCESS_DENIED"]


async def test_without_any_tenant_no_document_tool_is_listed_or_run() -> None:
    async with linked(MINE, remote_tenant_id=None) as (_, backend):
        session = backend.session()
        tools = [tool["name"] for tool in (await session.result("tools/list"))["tools"]]
        result = await session.call("read_doc_metadata", {"doc_id": "mine"})
    assert ("read_doc_metadata" in tools, result["isError"]) == (False, True)


@pytest.mark.parametrize("place", PLACES)
async def test_no_field_of_a_frame_changes_the_tenant(place: str) -> None:
    params = {"name": "read_doc_metadata", "arguments": {"doc_id": "theirs"}}
    async with linked(MINE, THEIRS) as (_, backend):
        session = backend.session()
        await backend.link().send_raw(json.dumps(forged(session, place, params)))
        assert code((await session.receive())["result"]) == "ACCESS_DENIED"


@pytest.mark.parametrize("place", PLACES)
async def test_no_field_of_a_frame_changes_the_agent(place: str) -> None:
    params = {"name": "a:alpha", "arguments": {}}
    async with in_front_of_two(remote_agent="of_b") as (_, backend):
        session = backend.session()
        await backend.link().send_raw(json.dumps(forged(session, place, params)))
        assert code((await session.receive())["result"]) == "TOOL_NOT_ALLOWED"


@pytest.mark.parametrize("argument", ["tenant_id", "user", "agent", "X-Tenant-Id"])
async def test_no_argument_changes_the_tenant(argument: str) -> None:
    async with linked(MINE, THEIRS) as (_, backend):
        arguments = {"doc_id": "theirs", argument: FORGED[argument]}
        result = await backend.session().call("read_doc_metadata", arguments)
    assert code(result) == "ACCESS_DENIED"


async def test_a_sessions_name_does_not_set_the_tenant() -> None:
    async with linked(MINE, THEIRS) as (_, backend):
        assert await read(backend.session("tenant_2"), "theirs") == "ACCESS_DENIED"


async def test_the_client_info_does_not_set_the_tenant() -> None:
    begin = {"protocolVersion": "2025-11-25", "capabilities": {"experimental": {"x": FORGED}}}
    begin["clientInfo"] = {"name": "tenant_2", "version": "1", **FORGED}
    async with linked(MINE, THEIRS) as (_, backend):
        session = backend.session(era="2025-11-25")
        await session.result("initialize", begin)
        await session.notify("notifications/initialized", FORGED)
        assert await read(session, "theirs") == "ACCESS_DENIED"


@eras
async def test_the_remote_agents_profile_limits_lists(era: str) -> None:
    async with in_front_of_two(remote_agent="of_b") as (_, backend):
        session = await begun(backend, era)
        tools = {tool["name"] for tool in (await session.result("tools/list"))["tools"]}
        prompts = [it["name"] for it in (await session.result("prompts/list"))["prompts"]]
        resources = [it["uri"] for it in (await session.result("resources/list"))["resources"]]
    assert {name for name in tools if ":" in name} == {"a-b:beta"}
    assert "read_doc_metadata" not in tools
    assert prompts == ["greet", "plain", "beta"]
    assert resources == ["raw://text", "raw://beta"]


@pytest.mark.parametrize("tool", ["a:whoami", "a:alpha", "a-b:whoami", "read_doc_metadata"])
async def test_the_remote_agents_profile_limits_calls(tool: str) -> None:
    async with in_front_of_two(remote_agent="of_b") as (_, backend):
        result = await backend.session().call(tool, {"doc_id": "doc_1"})
    assert code(result) == "TOOL_NOT_ALLOWED"


async def test_the_remote_agents_profile_chooses_between_two_servers_items() -> None:
    async with in_front_of_two(remote_agent="of_b") as (_, backend):
        result = await backend.session().result("resources/read", {"uri": ITEM_7})
    assert result["contents"] == [{"uri": ITEM_7, "text": f"{ITEM_7} of a-b"}]


@eras
async def test_budgets_apply_across_sessions(era: str) -> None:
    async with linked(MINE, rate_limit_calls=3) as (_, backend):
        sessions = [await begun(backend, era) for _ in range(5)]
        codes = await asyncio.gather(*(read(session, "mine") for session in sessions))
    assert sorted(codes) == ["OK"] * 3 + ["RATE_LIMIT_EXCEEDED"] * 2


async def test_budgets_are_shared_with_the_http_api() -> None:
    async with linked(MINE, rate_limit_calls=1) as (service, backend):
        first = await service.code("read_doc_metadata", {"doc_id": "mine"})
        second = await read(await begun(backend, MODERN), "mine")
    assert (first, second) == ("OK", "RATE_LIMIT_EXCEEDED")


@eras
async def test_the_settings_can_limit_the_documents(era: str) -> None:
    async with linked(MINE, remote_documents="mine, other") as (_, backend):
        session = await begun(backend, era)
        meta = {f"{PREFIX}documents": ["mine", "doc_1"]}
        codes = [await read(session, doc_id) for doc_id in ("mine", "doc_1")]
        filled_in = await session.result("tools/call", {"name": "read_doc_metadata", "_meta": meta})
        wider = {"name": "read_doc_metadata", "arguments": {"doc_id": "doc_1"}, "_meta": meta}
        codes += [code(filled_in), code(await session.result("tools/call", wider))]
    assert codes == ["OK", "ACCESS_DENIED", "OK", "ACCESS_DENIED"]
