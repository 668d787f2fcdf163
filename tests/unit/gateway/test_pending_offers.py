from mcp_tools_proxy.domain.bindings import Overrides
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import Preset, Reference
from mcp_tools_proxy.gateway.first_attempts import may_offer
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.visibility import Offers, Permissions, PresetScope, Visibility
from mcp_tools_proxy.registry.access_rules import WITHOUT_AGENT
from tests.support.builders import make_preset, refs
from tests.support.tables import each_row

OFFERS = Offers(
    scope=PresetScope.of(make_preset(tools=["s1/a", "s1/excluded", "s2/a"])),
    exclude={"s1": Exclusions(["excluded"])},
    servers=("s1", "s2"),
)
ONLY_S2 = Permissions("reader", Visibility(server_ids=frozenset({"s2"})))


@each_row(
    ("server_id", "name", "permissions", "may"),
    [
        ("s1", "s1:a", WITHOUT_AGENT, True),
        ("s1", "s1__a", WITHOUT_AGENT, True),
        ("s1", "s1:b", WITHOUT_AGENT, False),
        ("s1", "s2:a", WITHOUT_AGENT, False),
        ("s1", "s1:excluded", WITHOUT_AGENT, False),
        ("s1", "a", WITHOUT_AGENT, True),
        ("s1", "s1:a", ONLY_S2, False),
        ("s2", "s2:a", ONLY_S2, True),
        ("s2", "a", ONLY_S2, True),
    ],
)
def test_a_call_waits_only_for_servers_that_may_offer_its_name(
    server_id: str, name: str, permissions: Permissions, may: bool
) -> None:
    assert may_offer(OFFERS, server_id, Kind.TOOL, name, permissions) is may


def test_a_call_waits_for_a_server_by_the_name_in_the_preset() -> None:
    given = Reference(server_id="s1", name="a", overrides=Overrides(name="one"))
    preset = Preset(preset_id="p", name="P", tools=(given, *refs("s2/a")))
    offers = Offers(scope=PresetScope.of(preset), servers=("s1", "s2"))
    waited_for = [
        it for it in ("s1", "s2") if may_offer(offers, it, Kind.TOOL, "one", WITHOUT_AGENT)
    ]
    assert waited_for == ["s1"]
