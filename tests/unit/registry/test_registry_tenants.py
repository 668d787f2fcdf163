"""Document tools are hidden from callers without a tenant; all other items are available."""

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


def caller_without_tenant(agent: str | None = None) -> Caller:
    return make_caller(tenant_id=NO_TENANT, agent=agent)


def names(caller: Caller) -> list[str]:
    return [spec.name for spec in REGISTRY.visible_to(caller)]


def refusal(name: str, agent: str | None = None) -> ProxyError:
    with pytest.raises(NotAllowed) as refused:
        REGISTRY.resolve(replace(make_call(name), caller=caller_without_tenant(agent)))
    return refused.value


@AGENTS
def test_callers_without_a_tenant_do_not_see_tools_that_need_one(agent: str | None) -> None:
    assert names(caller_without_tenant(agent)) == ["catalog", "a:read"]


@AGENTS
def test_the_error_for_a_missing_tenant_states_how_to_name_one(agent: str | None) -> None:
    error = refusal("read", agent)
    assert isinstance(error, ToolNotAllowed)
    assert "send X-Tenant-Id or a tenant's token" in error.message


def test_a_tool_refused_by_the_profile_is_not_reported_as_missing_tenant() -> None:
    assert "X-Tenant-Id" not in refusal("read", NARROW).message


def test_the_name_of_a_hidden_document_tool_does_not_resolve_to_a_server() -> None:
    assert isinstance(refusal("read", "wide"), ToolNotAllowed)


@AGENTS
async def test_lists_for_models_omit_tools_that_need_a_tenant(agent: str | None) -> None:
    for tool_format in ToolFormat:
        found = await REGISTRY.list_tools(caller_without_tenant(agent), tool_format)
        assert [spec.name for spec in found.specs] == ["catalog", "a:read"]


async def test_requesting_a_hidden_tool_by_name_returns_an_empty_list() -> None:
    found = await REGISTRY.list_tools(caller_without_tenant(), ToolFormat.MCP, ["read"])
    assert ([*found.specs], [it.get("tool") for it in found.warnings]) == ([], ["read"])


@AGENTS
def test_prompts_and_resources_do_not_need_a_tenant(agent: str | None) -> None:
    with_one, without = make_caller(agent=agent), caller_without_tenant(agent)
    assert visible(REGISTRY, "prompts", with_one) == visible(REGISTRY, "prompts", without)
    assert visible(REGISTRY, "resources", with_one) == visible(REGISTRY, "resources", without)


@given(st.permutations([(agent, tenant) for agent in (None, "wide") for tenant in ("", "t")]))
def test_lists_do_not_depend_on_earlier_callers(order: list[tuple[str | None, str]]) -> None:
    registry = Registry.build([READ, CATALOG], access_rules=REGISTRY.access_rules)
    for agent, tenant in order:
        seen = registry.visible_to(make_caller(tenant_id=tenant, agent=agent))
        assert (READ.spec in seen) == bool(tenant)


def test_a_list_for_any_tenant_contains_the_tools_of_all_tenants() -> None:
    assert names(make_caller(tenant_id=ANY_TENANT)) == names(make_caller())
