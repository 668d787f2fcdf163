"""An idempotency key never returns content that only a caller with more rights may read."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.domain.document import Readers
from tests.support.builders import make_document
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.mcp_endpoint import serving
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import Envelope, Service, eventually, put_all, running

PAYROLL = make_document(
    tenant_id="acme",
    doc_id="payroll",
    pages=("Salaries of all.",),
    readers=Readers(roles=frozenset({"audit"})),
)
OPEN = make_document(tenant_id="acme", doc_id="handbook", pages=("Salaries are confidential.",))
FIND: dict[str, dict[str, object]] = {
    "search_documents": {"query": "salaries"},
    "list_documents": {},
}


async def found(service: Service, tool: str, *roles: str, **more: Any) -> str:
    user = {"tenant_id": "acme", "user_id": "u", "roles": roles}
    return json.dumps(
        await service.execute(tool, FIND[tool], user=user, idempotency_key="k", **more)
    )


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with running_raw() as started:
        yield started


@pytest.mark.parametrize("tool", FIND)
async def test_a_caller_with_fewer_roles_does_not_get_the_answer_of_a_caller_with_more(
    tool: str,
) -> None:
    async with running(PAYROLL, OPEN) as service:
        assert "payroll" in await found(service, tool, "audit")
        narrow = await found(service, tool)
        assert "handbook" in narrow
        assert "payroll" not in narrow


@pytest.mark.parametrize("tool", FIND)
async def test_bound_documents_narrow_the_answer_under_the_same_key(tool: str) -> None:
    async with running(PAYROLL, OPEN) as service:
        assert "handbook" in await found(service, tool)
        assert "handbook" not in await found(service, tool, documents=["payroll"])


@pytest.mark.parametrize("tool", FIND)
async def test_revoked_rights_are_not_replayed(tool: str) -> None:
    folder = Path("documents")
    write_document(folder, OPEN, replace=False)
    async with running(mock_mode=False) as service:
        assert "handbook" in await found(service, tool)
        closed = replace(OPEN, readers=Readers(roles=frozenset({"audit"})))
        write_document(folder, closed, replace=True)
        await service.gateway.documents.connect()
        assert "handbook" not in await found(service, tool)
        assert "handbook" in await found(service, tool, "audit")


async def test_the_list_of_tools_follows_the_current_profile(server: RawServer) -> None:
    config = Config(
        servers={"s1": server.entry},
        presets=[make_preset(tools=[("s1", "echo")])],
        agents=[make_agent("helper")],
    )
    async with running(config=config) as service:
        wide = await service.execute("list_available_tools", idempotency_key="k", agent="helper")
        assert "s1:echo" in json.dumps(wide)
        narrow = replace(config, agents=[make_agent("helper", exclude=["s1:echo"])])
        narrow.write(Path("config"))

        async def is_narrow() -> bool:
            again = await service.execute(
                "list_available_tools", idempotency_key="k", agent="helper"
            )
            return "s1:echo" not in json.dumps(again)

        await eventually(is_narrow)


@pytest.mark.parametrize(
    "other", [{"roles": ["a"]}, {"roles": []}, {"roles": ["a", "b", "c"]}, {"documents": ["d"]}]
)
async def test_other_roles_or_documents_are_a_different_call(
    server: RawServer, other: dict[str, Any]
) -> None:
    async def called(roles: list[str], **more: Any) -> Envelope:
        user = {"tenant_id": "acme", "user_id": "u", "roles": roles}
        return await service.execute("s1:counter", user=user, idempotency_key="k", **more)

    config = Config(servers={"s1": server.entry}, presets=[make_preset(tools=[("s1", "counter")])])
    async with running(config=config) as service:
        await called(["a", "b"])
        refused = await called(**({"roles": ["a", "b"]} | other))
        assert refused["error"]["code"] == "IDEMPOTENCY_CONFLICT"
        assert (await called(["b", "a", "b"]))["replayed"] is True
        assert server.script.calls["counter"] == 1


async def test_searches_over_mcp_are_not_replayed() -> None:
    async with serving() as served:
        put_all(served.service, (PAYROLL, OPEN))
        for roles, expected in (("audit", True), ("none", False)):
            answer = await served.request(
                "tools/call",
                {"name": "search_documents", "arguments": FIND["search_documents"]},
                headers={"X-Tenant-Id": "acme", "X-User-Id": "u", "X-User-Roles": roles},
                meta={"io.github.mcp-tools-proxy/idempotencyKey": "k"},
            )
            assert ("payroll" in answer.text) is expected
