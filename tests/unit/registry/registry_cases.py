"""Random servers, presets, profiles and exclusions, and the resulting registry."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.configuration import AgentProfile, Preset, Reference
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.policy.aliases import alias_of
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.presets import filter_capabilities
from mcp_tools_proxy.policy.visibility import Offers, PresetScope, Visibility
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.component_table import drop_name_conflicts
from mcp_tools_proxy.registry.mcp_lists import NameStyles
from mcp_tools_proxy.registry.registry import Registry
from tests.support.builders import make_caller, make_snapshot
from tests.support.fakes import FakeTool, fake_components

AGENT = "reader"
LOCAL = FakeTool(name="local", needs_tenant=True)

SERVERS = ("a", "a-b", "b")
PLAIN = ("x", "y:z")
IMPOSTORS = ("a:x", "a__x")
"""Names that a server may use although they look like the spelling of another's item."""
TEMPLATES = ("t/{rest}", "t/x{rest}")
URIS = ("t/x1", "u")

Item = tuple[Kind, str | None, str]
"""A component: kind, server id and bare name."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Offers of servers and content of files; ``registry`` is built from them."""

    snapshots: Mapping[str, Snapshot]
    preset: Preset
    profile: AgentProfile
    agents_preset: Preset | None = None
    exclude: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def registry(self) -> Registry:
        """Build the registry like a reload."""
        return self.registry_in(ToolNameStyle.SERVER)

    def registry_in(self, tool_names: ToolNameStyle) -> Registry:
        """Build it with MCP lists that use this naming style."""
        exclude = {server_id: Exclusions(it) for server_id, it in self.exclude.items()}
        made = fake_components(filter_capabilities(self.snapshots, self.preset, exclude))
        tools, _ = drop_name_conflicts([LOCAL], made.tools)
        scope = None if self.agents_preset is None else PresetScope.of(self.agents_preset)
        return Registry.build(
            [LOCAL, *tools],
            prompts=made.prompts,
            resources=made.resources,
            templates=made.templates,
            access_rules=AccessRules(
                agents={AGENT: Visibility.of(self.profile, scope)},
            ),
            offers=Offers(
                scope=PresetScope.of(self.preset), exclude=exclude, servers=self.snapshots
            ),
            name_styles=NameStyles(default=ListOptions(name_style=tool_names)),
        )


def outcome(registry: Registry, kind: Kind, name: str, agent: str | None) -> Item | str:
    """Resolve a name; return the component or the code of the refusal."""
    return outcome_for(registry, kind, name, make_caller(agent=agent))


def outcome_for(registry: Registry, kind: Kind, name: str, caller: Caller) -> Item | str:
    call = Call(name=name, kind=kind, arguments={}, caller=caller, trace_id="trace-1")
    try:
        spec = registry.resolve(call).spec
    except ProxyError as error:
        return error.code
    return spec.kind, spec.server_id, spec.bare_name


def outcomes(
    case: Case, agent: str | None, names: tuple[str, ...]
) -> dict[tuple[Kind, str], Item | str]:
    """Resolve every spelling of ``names`` and of URIS."""
    registry = case.registry
    names_used = [(Kind.RESOURCE, uri) for uri in URIS]
    names_used += [(kind, name) for kind in (Kind.TOOL, Kind.PROMPT) for name in names]
    full = [(kind, f"{server}:{name}") for kind, name in names_used for server in SERVERS]
    aliases = [(Kind.TOOL, alias_of(server, name)) for server in SERVERS for name in names]
    return {it: outcome(registry, *it, agent) for it in (*names_used, *full, *aliases)}


def cases(names: tuple[str, ...]) -> st.SearchStrategy[Case]:
    """Return cases whose servers use ``names`` for their items."""
    lists = st.lists(st.sampled_from(names), unique=True, max_size=3)
    uris = st.lists(st.sampled_from(URIS), unique=True)
    templates = st.lists(st.sampled_from(TEMPLATES), unique=True, max_size=2)
    snapshot = st.builds(
        make_snapshot, tools=lists, prompts=lists, resources=uris, templates=templates
    )
    return st.builds(
        Case,
        snapshots=st.fixed_dictionaries(dict.fromkeys(SERVERS, snapshot)),
        preset=presets(names),
        profile=st.builds(
            AgentProfile,
            name=st.just(AGENT),
            server_ids=st.none() | some_servers,
            exclude_components=entries(names),
        ),
        agents_preset=st.none() | st.none() | presets(names),
        exclude=st.dictionaries(st.sampled_from(SERVERS), entries(names), max_size=2),
    )


some_servers = st.lists(st.sampled_from(SERVERS), min_size=1, unique=True).map(tuple)


def presets(names: tuple[str, ...]) -> st.SearchStrategy[Preset]:
    """Return presets; most list tools, and most leave other kinds unrestricted."""
    every = [Reference(server_id=server, name=name) for server in SERVERS for name in names]
    other = [
        Reference(server_id=server, name=it) for server in SERVERS for it in (*URIS, *TEMPLATES)
    ]
    tools = st.just(tuple(every)) | st.lists(st.sampled_from(every), max_size=8).map(tuple)
    prompts = st.none() | st.lists(st.sampled_from(every), max_size=6).map(tuple)
    resources = st.none() | st.lists(st.sampled_from([*every, *other]), max_size=8).map(tuple)
    return st.builds(
        Preset,
        preset_id=st.just("p"),
        name=st.just("P"),
        tools=tools,
        prompts=prompts,
        resources=resources,
    )


def entries(names: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    """Return exclusions: names in every spelling."""
    spelt = [*names, *URIS, *TEMPLATES]
    spelt += [f"{server}:{name}" for server in SERVERS for name in spelt]
    spelt += [f"{kind.value}:{name}" for kind in Kind for name in spelt]
    return st.lists(st.sampled_from(spelt), max_size=3).map(tuple)
