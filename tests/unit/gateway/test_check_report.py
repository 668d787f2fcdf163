from dataclasses import replace

from mcp_tools_proxy.config.agents import NO_AGENTS
from mcp_tools_proxy.config.loader import NO_FILE
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject, ToolNameStyle
from mcp_tools_proxy.domain.configuration import AgentProfile, Agents
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.domain.offers import InvalidItem
from mcp_tools_proxy.gateway.check.report import Files, build_report
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.mcp_lists import NameStyles
from mcp_tools_proxy.registry.registry import Registry
from tests.support.builders import make_preset, make_snapshot
from tests.support.fakes import FakeTool
from tests.support.tables import each_row

FILES = Files(
    configuration=NO_FILE,
    agents=NO_AGENTS,
    agents_are_known=True,
    presets=(),
    active="work",
    problems=(),
    warnings=(),
)
NO_RULES = ActiveRunRules(())


def test_tools_with_schemas_unsupported_by_a_model_api_are_found_per_api() -> None:
    tool = FakeTool(name="a:pay", alias="a__pay", server_id="a", properties=("to", "sum"))
    tool.spec = replace(tool.spec, input_schema={**tool.spec.input_schema, "not": {"const": {}}})
    registry = Registry.build([tool, FakeTool(name="fine")])
    found = build_report(
        FILES, (), {}, registry, require_agent=None, rules=NO_RULES
    ).schema_relaxations
    assert [(tool_format, name) for tool_format, name, _ in found] == [("openai", "a:pay")]


REJECTED: dict[str, tuple[JsonObject, str]] = {
    "reference at the root": ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, "$ref at the root"),
    "choice at the root": ({"type": "object", "anyOf": [{}]}, "anyOf at the root"),
    "reference to a property": (
        {"properties": {"a": {"items": {"$ref": "#/properties/b"}}, "b": {}}},
        '$ref to "#/properties/b"',
    ),
    "list of types": (
        {"$defs": {"a": {"type": ["boolean", "string"]}}},
        "list of types: boolean, string",
    ),
    "array without items": ({"properties": {"a": {"type": "array"}}}, "array without items"),
    "name of a property": ({"properties": {"$filter": {}}}, 'property named "$filter"'),
}


@each_row("case", REJECTED)
def test_names_rejected_by_clients_are_found_with_the_option_that_helps(case: str) -> None:
    schema, problem = REJECTED[case]
    tool = FakeTool(name="a:odd", alias="a__odd", server_id="a")
    tool.spec = replace(tool.spec, input_schema=schema)
    found = build_report(
        FILES,
        (),
        {},
        Registry.build([tool, FakeTool(name="fine")]),
        require_agent=None,
        rules=NO_RULES,
    )
    (rejected,) = found.client_problems
    assert rejected.tool == "a:odd"
    assert problem in rejected.problem
    assert "schemas=plain" in rejected.remedy
    assert found.good


@each_row(
    ("style", "rejected"),
    [
        (None, []),
        (ToolNameStyle.ALIAS, []),
        (ToolNameStyle.SERVER, ["a:pay", "a:x.y"]),
        (ToolNameStyle.BARE, ["a:x.y"]),
    ],
)
def test_names_rejected_by_clients_depend_on_the_configured_style(
    style: ToolNameStyle | None, rejected: list[str]
) -> None:
    tools = [
        FakeTool(name="a:pay", alias="a__pay", server_id="a"),
        FakeTool(name="a:x.y", alias="a_x_y_f8e8e8d6", server_id="a"),
    ]
    styles = NameStyles(default=ListOptions(name_style=style))
    registry = Registry.build(tools, name_styles=styles)
    found = build_report(
        FILES, (), {}, registry, require_agent=None, rules=NO_RULES
    ).client_problems
    assert [it.tool for it in found] == rejected
    assert all("name_style=alias" in it.remedy for it in found)


def test_names_rejected_by_model_apis_are_found_with_their_aliases() -> None:
    files = replace(FILES, presets=(make_preset(tools=["a/plain", "a/x.y", "a/do it"]),))
    snapshots = {"a": make_snapshot(tools=["plain", "x.y", "do it"])}
    found = build_report(
        files, (), snapshots, Registry.build([]), require_agent=None, rules=NO_RULES
    )
    assert found.presets[0].refused_names == {
        "a:x.y": "a_x_y_f8e8e8d6",
        "a:do it": "a_do_it_ffec722b",
    }


def test_an_excluded_local_tool_counts_as_a_match() -> None:
    reader = AgentProfile(name="reader", exclude_components=("local", "no_such_tool"))
    files = replace(FILES, agents=Agents(profiles={"reader": reader}))
    access_rules = AccessRules(agents={"reader": Visibility.of(reader, None)})
    registry = Registry.build([FakeTool(name="local")], access_rules=access_rules)
    found = build_report(files, (), {}, registry, require_agent=None, rules=NO_RULES)
    assert [it.path for it in found.warnings] == ["$.agents[0].exclude_components[1]"]


def test_one_preset_is_marked_as_active() -> None:
    files = replace(FILES, presets=tuple(map(make_preset, ("play", "work", "zoo"))))
    found = build_report(files, (), {}, Registry.build([]), require_agent=None, rules=NO_RULES)
    assert [it.active for it in found.presets] == [False, True, False]


def test_a_server_without_tools_is_a_warning() -> None:
    snapshots = {
        "none": make_snapshot(prompts=["p"]),
        "some": make_snapshot(tools=["t"]),
        "unlisted": replace(make_snapshot(), unlisted=frozenset({"tools"})),
        "bad": replace(
            make_snapshot(), dropped=(InvalidItem(kind=Kind.TOOL, name="t", reason="it is odd"),)
        ),
    }
    report = build_report(
        FILES, (), snapshots, Registry.build([]), require_agent=None, rules=NO_RULES
    )
    assert [(it.path, it.message) for it in report.warnings] == [
        ("$.mcpServers.none", "the server offers no tools")
    ]
