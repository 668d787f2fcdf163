"""Available document tools: by the setting, and for one agent by its profile."""

from collections.abc import Sequence
from typing import Any

import pytest

from mcp_tools_proxy.settings.settings import SettingsError, load_settings
from tests.support.configuration import Config, Json
from tests.support.local_tools import LISTED_TOOLS, LOCAL_TEMPLATES
from tests.support.mcp_endpoint import LEGACY, MODERN, serving
from tests.support.raw_mcp_client import raw_client
from tests.support.service import TOOLS, Service, running

CATALOG = "list_available_tools"
DOC = {"doc_id": "doc_1"}
SOME = ("read_doc_metadata", "list_documents")
ADMIN = "an-admin-token-of-16"
CHOICES: tuple[tuple[object, Sequence[str]], ...] = (
    ("all", LISTED_TOOLS),
    ("none", (CATALOG,)),
    ([*SOME], (*SOME, CATALOG)),
    (["read_doc_pages"], ("read_doc_pages", CATALOG)),
    ([], (CATALOG,)),
)


async def listed(service: Service, **query: str) -> list[str]:
    return [tool["name"] for tool in (await service.get(TOOLS, **query))["tools"]]


async def templates(service: Service, **query: str) -> list[str]:
    shown = await service.get("/internal/mcp/resources", **query)
    return [it["uriTemplate"] for it in shown["resource_templates"]]


def written(choice: object) -> Any:
    return tuple(choice) if isinstance(choice, list) else (choice,)


@pytest.mark.parametrize(("choice", "tools"), CHOICES[:4])
async def test_the_setting_selects_the_available_tools(
    choice: object, tools: Sequence[str]
) -> None:
    async with running(document_tools=written(choice)) as service:
        assert await listed(service) == [*tools]
        assert (await service.result(CATALOG))["tools"] == [*tools]
        code = await service.code("read_doc_metadata", DOC)
        assert code == ("OK" if "read_doc_metadata" in tools else "TOOL_NOT_FOUND")
        found = await templates(service)
        assert found == ([*LOCAL_TEMPLATES] if "read_doc_pages" in tools else [])


@pytest.mark.parametrize(("choice", "tools"), CHOICES)
async def test_a_profile_selects_the_tools_of_its_agent(
    choice: object, tools: Sequence[str]
) -> None:
    agent: Json = {"name": "reader", "document_tools": choice}
    async with running(config=Config(agents=[agent]), require_agent=False) as service:
        assert await listed(service, agent="reader") == [*tools]
        assert await listed(service) == [*LISTED_TOOLS]
        code = await service.code("read_doc_metadata", DOC, agent="reader")
        assert code == ("OK" if "read_doc_metadata" in tools else "TOOL_NOT_ALLOWED")
        found = await templates(service, agent="reader")
        assert found == ([*LOCAL_TEMPLATES] if "read_doc_pages" in tools else [])


async def test_a_profile_narrows_the_setting_and_never_widens_it() -> None:
    agent: Json = {"name": "reader", "document_tools": ["read_doc_pages", "verify_quote"]}
    chosen = ("verify_quote", "list_documents")
    async with running(config=Config(agents=[agent]), document_tools=chosen) as service:
        assert await listed(service, agent="reader") == ["verify_quote", CATALOG]
        codes = [
            await service.code(tool, DOC, agent="reader")
            for tool in ("read_doc_pages", "list_documents")
        ]
    assert codes == ["TOOL_NOT_FOUND", "TOOL_NOT_ALLOWED"]


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_lists_over_mcp_have_the_selected_tools_and_no_document_resources(era: str) -> None:
    async with serving(document_tools=SOME) as served:
        client = await raw_client(served, era)
        tools = (await client.request("tools/list"))["result"]["tools"]
        shown = (await client.request("resources/templates/list"))["result"]
    assert [tool["name"] for tool in tools] == [*SOME, CATALOG]
    assert shown["resourceTemplates"] == []


async def test_explain_names_the_rule_that_disables_a_tool() -> None:
    agent: Json = {"name": "reader", "document_tools": "none"}
    user = {"user_id": "u", "tenant_id": "tenant_1"}
    rules = []
    async with running(
        config=Config(agents=[agent]),
        require_agent=False,
        document_tools=SOME,
        admin_token=ADMIN,
    ) as service:
        for tool, more in (("verify_quote", {}), ("list_documents", {"agent": "reader"})):
            body = {"tool_name": tool, "arguments": {}, "user": user, **more}
            headers = {"Authorization": f"Bearer {ADMIN}"}
            shown = await service.http.post("/internal/mcp/explain", json=body, headers=headers)
            rules.append(shown.json()["rule"])
    assert rules == [
        {"file": "settings", "path": "MCP_PROXY_DOCUMENT_TOOLS"},
        {"file": "agents.json", "path": '$.agents[?@.name=="reader"].document_tools'},
    ]


@pytest.mark.parametrize("choice", ["read_doc_page", ["read_doc_page"], ["all"], 1, {}])
async def test_an_unknown_selection_makes_agents_json_invalid(choice: object) -> None:
    agent: Json = {"name": "reader", "document_tools": choice}
    async with running(config=Config(agents=[agent])) as service:
        code = await service.code("list_documents", agent="reader")
    assert code == ("OK" if choice == ["all"] else "AGENT_NOT_FOUND")


@pytest.mark.parametrize("choice", ["", "read_doc_page", "read_doc_pages,none", "[1]"])
def test_an_unknown_selection_stops_the_start(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_PROXY_DOCUMENT_TOOLS", choice)
    with pytest.raises(SettingsError, match=r"^MCP_PROXY_DOCUMENT_TOOLS: [^;\n]+(; [^\n]+)?$"):
        load_settings()


@pytest.mark.parametrize("key", ["documentTools", "document_tool"])
async def test_a_misspelt_key_makes_agents_json_invalid(key: str) -> None:
    async with running(config=Config(agents=[{"name": "reader", key: "none"}])) as service:
        assert await service.code("list_documents", agent="reader") == "AGENT_NOT_FOUND"
