from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mcp_tools_proxy.domain.caller import Caller, Kind
from mcp_tools_proxy.domain.errors import (
    AmbiguousName,
    PromptNotFound,
    ResourceNotAllowed,
    ResourceNotFound,
    ToolNotAllowed,
    ToolNotFound,
)
from mcp_tools_proxy.policy.aliases import alias_of
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS, Exclusions
from mcp_tools_proxy.policy.visibility import Offers, Visibility
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.registry import Registry
from tests.support.builders import make_call, make_caller
from tests.support.fakes import FakePrompt, FakeResource, FakeTemplate, FakeTool
from tests.support.tables import each_row

AGENT = "reader"


def tool(server_id: str, name: str) -> FakeTool:
    return FakeTool(
        name=f"{server_id}:{name}", alias=alias_of(server_id, name), server_id=server_id
    )


def build(
    *tools: FakeTool, servers: Sequence[str], excluded: Exclusions = NO_EXCLUSIONS, **others: Any
) -> Registry:
    agents = {AGENT: Visibility(excluded=excluded)}
    return Registry.build(
        tools,
        access_rules=AccessRules(agents=agents),
        offers=Offers(servers=servers),
        **others,
    )


@pytest.mark.requirement("A-19")
@each_row(("name", "refusal"), [("bank:pay", ToolNotAllowed), ("bank__pay", ToolNotFound)])
def test_a_tool_is_never_used_in_place_of_an_absent_servers_tool(
    name: str, refusal: type[Exception]
) -> None:
    registry = build(tool("evil", name), servers=("evil", "bank"))
    own = registry.resolve(make_call(f"evil:{name}", agent=AGENT))
    assert own.spec.server_id == "evil"
    with pytest.raises(refusal):
        registry.resolve(make_call(name, agent=AGENT))


def test_a_tool_with_underscores_after_an_unknown_server_id_is_found_by_bare_name() -> None:
    registry = build(tool("db", "list__tables"), servers=("db", "bank"))
    found = registry.resolve(make_call("list__tables", agent=AGENT))
    assert found.spec.name == "db:list__tables"


@pytest.mark.requirement("A-19")
@each_row("caller", [make_caller(agent=AGENT), make_caller()])
def test_a_prompt_is_never_used_in_place_of_an_absent_servers_prompt(caller: Caller) -> None:
    prompts = [FakePrompt("bank:pay", server_id="evil")]
    registry = build(prompts=prompts, servers=("evil", "bank"))
    own = registry.resolve(replace(make_call("evil:bank:pay", kind=Kind.PROMPT), caller=caller))
    assert own.spec.server_id == "evil"
    with pytest.raises(PromptNotFound):
        registry.resolve(replace(make_call("bank:pay", kind=Kind.PROMPT), caller=caller))


@pytest.mark.requirement("A-19")
@each_row("caller", [make_caller(agent=AGENT), make_caller()])
def test_a_resource_is_never_used_in_place_of_an_absent_servers_resource(caller: Caller) -> None:
    resources = [FakeResource("bank:raw://x", server_id="evil")]
    registry = build(resources=resources, servers=("evil", "bank"))
    own = registry.resolve(
        replace(make_call("evil:bank:raw://x", kind=Kind.RESOURCE), caller=caller)
    )
    assert own.spec.server_id == "evil"
    with pytest.raises(ResourceNotFound):
        registry.resolve(replace(make_call("bank:raw://x", kind=Kind.RESOURCE), caller=caller))


@each_row("uri", ["bank://x:80/y", "evil:raw://x", "urn:isbn:1"])
def test_a_uri_without_another_servers_prefix_is_found(uri: str) -> None:
    resources = [FakeResource(uri, server_id="evil")]
    registry = build(resources=resources, servers=("evil", "bank"))
    assert read(registry, uri) == ("evil", uri)


def read(registry: Registry, uri: str) -> tuple[str | None, str]:
    resource = registry.resolve(make_call(uri, kind=Kind.RESOURCE, agent=AGENT))
    assert isinstance(resource, FakeResource)
    return resource.spec.server_id, resource.uri


@pytest.mark.requirement("A-10")
def test_a_server_prefix_selects_between_templates_that_match_any_uri() -> None:
    templates = [FakeTemplate("", server_id="a"), FakeTemplate("", server_id="b")]
    registry = build(templates=templates, servers=("a", "b"))
    assert [read(registry, uri) for uri in ("a:raw://x", "b:raw://x")] == [
        ("a", "raw://x"),
        ("b", "raw://x"),
    ]
    for uri in ("raw://x", "a://x"):
        with pytest.raises(AmbiguousName):
            read(registry, uri)


def test_a_uri_whose_scheme_is_a_server_id_is_read_unchanged() -> None:
    templates = [FakeTemplate("", server_id="notes"), FakeTemplate("other://", server_id="b")]
    registry = build(templates=templates, servers=("notes", "b"))
    assert read(registry, "notes://x") == ("notes", "notes://x")


@pytest.mark.requirement("A-09", "A-20")
@each_row("uri", ["raw://x", "a:raw://x"])
def test_a_uri_of_a_hidden_template_is_denied_with_and_without_its_server(uri: str) -> None:
    hidden = Exclusions(["a:raw://{rest}"])
    templates = [FakeTemplate("raw://", server_id="a")]
    registry = build(templates=templates, servers=("a",), excluded=hidden)
    with pytest.raises(ResourceNotAllowed):
        read(registry, uri)
