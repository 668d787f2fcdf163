"""Callers without a tenant are not offered what works on documents; all else is theirs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import ANY_TENANT, NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import NotAllowed, ProxyError, ToolNotAllowed
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.registry import Registry
from mcp_tools_proxy.wire.json_schema.tool_formats import ToolFormat
from tests.support.builders import make_call, make_caller
from tests.support.fakes import FakePrompt, FakeResource, FakeTool
from tests.support.registry_lists import visible

READ = FakeTool(name="read", needs_tenant=True)
CATALOG = FakeTool(name="catalog")
REMOTE = FakeTool(name="a:read", alias="a__read", server_id="a")
NARROW = "narrow"
REGISTRY = Registry.build(
    [READ, CATALOG, REMOTE],
    prompts=[FakePrompt("hello")],
    resources=[FakeResource("u://1")],
    access_rules=AccessRules(
        agents={
            "wide": Visibility(),
            NARROW: Visibility(server_ids=frozenset(), excluded=Exclusions(["read"])),
        }
    ),
)
AGENTS = pytest.mark.parametrize("agent", [None, "wide"])


def nobodys(agent: str | None = None) -> Caller:
    return make_caller(tenant_id=NO_TENANT, agent=agent)


def names(caller: Caller) -> list[str]:
    return [spec.name for spec in REGISTRY.visible_to(caller)]


def refusal(name: str, agent: str | None = None) -> ProxyError:
    with pytest.raises(NotAllowed) as refused:
        REGISTRY.resolve(replace(make_call(name), caller=nobodys(agent)))
    return refused.value


@AGENTS
def test_who_has_no_tenant_is_not_shown_what_needs_one(agent: str | None) -> None:
    assert names(nobodys(agent)) == ["catalog", "a:read"]


@AGENTS
def test_calling_what_needs_a_tenant_without_one_says_how_to_name_one(agent: str | None) -> None:
    error = refusal("read", agent)
    assert isinstance(error, ToolNotAllowed)
    assert "send X-Tenant-Id or a tenant's token" in error.message


def test_what_the_agent_may_not_use_anyway_is_refused_for_that_and_not_for_the_tenant() -> None:
    assert "X-Tenant-Id" not in refusal("read", NARROW).message


def test_a_bare_name_does_not_lead_to_a_server_because_a_document_tool_is_not_offered() -> None:
    assert isinstance(refusal("read", "wide"), ToolNotAllowed)


@AGENTS
async def test_the_lists_for_models_leave_out_what_needs_a_tenant(agent: str | None) -> None:
    for tool_format in ToolFormat:
        found = await REGISTRY.list_tools(nobodys(agent), tool_format)
        assert [spec.name for spec in found.specs] == ["catalog", "a:read"]


async def test_naming_it_in_a_list_leads_to_nothing() -> None:
    found = await REGISTRY.list_tools(nobodys(), ToolFormat.MCP, ["read"])
    assert ([*found.specs], [it.get("tool") for it in found.warnings]) == ([], ["read"])


@AGENTS
def test_prompts_and_resources_need_no_tenant(agent: str | None) -> None:
    with_one, without = make_caller(agent=agent), nobodys(agent)
    assert visible(REGISTRY, "prompts", with_one) == visible(REGISTRY, "prompts", without)
    assert visible(REGISTRY, "resources", with_one) == visible(REGISTRY, "resources", without)


@given(st.permutations([(agent, tenant) for agent in (None, "wide") for tenant in ("", "t")]))
def test_who_asked_before_changes_no_list(order: list[tuple[str | None, str]]) -> None:
    registry = Registry.build([READ, CATALOG], access_rules=REGISTRY.access_rules)
    for agent, tenant in order:
        seen = registry.visible_to(make_caller(tenant_id=tenant, agent=agent))
        assert (READ.spec in seen) == bool(tenant)


def test_a_list_for_no_tenant_in_particular_has_what_every_tenant_may_use() -> None:
    assert names(make_caller(tenant_id=ANY_TENANT)) == names(make_caller())
