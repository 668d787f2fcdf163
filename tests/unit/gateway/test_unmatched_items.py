from collections.abc import Mapping, Sequence

import pytest

from mcp_tools_proxy.config.json_file import MAX_PROBLEMS
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import AgentProfile, Agents, Configuration
from mcp_tools_proxy.domain.offers import InvalidItem, Snapshot
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.gateway.unmatched_items import find_unmatched_exclusions
from tests.support.builders import make_snapshot
from tests.support.tables import each_row

NOTES = make_snapshot(
    tools=["search", "drop_note"],
    prompts=["draft"],
    resources=["notes://first"],
    templates=["notes://by-id/{id}"],
)
TICKETS = make_snapshot(tools=["search", "close"])
BOTH = {"notes": NOTES, "tickets": TICKETS}


def warnings_of(
    *entries: str,
    exclude: Mapping[str, Sequence[str]] | None = None,
    found: Mapping[str, Snapshot] = BOTH,
    disabled: str | None = None,
) -> dict[str, str]:
    """Return the messages by ``file: path``; one agent has ``entries``, mcp.json has
    ``exclude``."""
    profile = AgentProfile(name="reader", exclude_components=entries)
    servers = {
        server_id: ServerConfig(
            server_id=server_id, transport=Transport.STDIO, enabled=server_id != disabled
        )
        for server_id in BOTH
    }
    problems = find_unmatched_exclusions(
        agents=Agents(profiles={"other": AgentProfile(name="other"), "reader": profile}),
        configuration=Configuration(
            servers=servers, exclude={key: tuple(it) for key, it in (exclude or {}).items()}
        ),
        snapshots=found,
        local_tools=["read_doc_pages"],
    )
    return {f"{it.file}: {it.path}": it.message for it in problems}


@pytest.mark.requirement("A-15", "A-18")
@each_row(
    "entry",
    [
        *("search", "tool:search", "notes:search", "tool:tickets:search"),
        *("prompt:draft", "notes:draft", "resource:notes:notes://first", "notes://by-id/{id}"),
        *("read_doc_pages", "tool:read_doc_pages"),
    ],
)
def test_a_matching_entry_in_any_spelling_is_not_reported(entry: str) -> None:
    assert warnings_of(entry) == {}


@pytest.mark.requirement("A-20")
@each_row(
    "entry",
    ["notes://by-id/7", "NOTES://by-ID/7", "resource:notes://by-id/7", "notes:notes://by-id/7"],
)
def test_a_uri_with_the_prefix_of_a_template_is_not_reported(entry: str) -> None:
    assert warnings_of(entry) == {}


@pytest.mark.requirement("A-15", "A-18")
@each_row(
    "entry",
    [
        *("Search", "prompt:search", "tickets:draft", "notes__search", "notes: search"),
        *("notes:read_doc_pages", "prompt:read_doc_pages", "notes://second", "other:search"),
        *("tickets:notes://by-id/7", "tool:notes://by-id/7"),
    ],
)
def test_an_entry_that_matches_nothing_is_reported_with_its_path(entry: str) -> None:
    assert list(warnings_of("search", entry)) == ["agents.json: $.agents[1].exclude_components[1]"]


def test_a_warning_names_the_discovered_servers() -> None:
    (message,) = warnings_of("search_").values()
    offered = 'nothing offered by the servers that were discovered: "notes"; "tickets"'
    assert message == f'"search_" matches {offered}'


@each_row(("entry", "server"), [("tickets:draft", "tickets"), ("tool:notes:close", "notes")])
def test_a_warning_about_an_entry_with_a_server_names_that_server(entry: str, server: str) -> None:
    (message,) = warnings_of(entry).values()
    assert message.endswith(f'discovered: "{server}"')


def test_an_unusable_item_of_a_server_counts_as_a_match() -> None:
    broken = InvalidItem(kind=Kind.TOOL, name="broken", reason="its schema is invalid")
    assert warnings_of("broken", found={**BOTH, "notes": Snapshot(dropped=(broken,))}) == {}


@pytest.mark.requirement("A-01", "A-15")
def test_exclusions_of_a_server_are_matched_with_its_own_items() -> None:
    exclude = {"notes": ["search", "close", "read_doc_pages"], "tickets": ["search", "draft"]}
    assert list(warnings_of(exclude=exclude)) == [
        "mcp.json: $.mcpServers.notes.exclude[1]",
        "mcp.json: $.mcpServers.notes.exclude[2]",
        "mcp.json: $.mcpServers.tickets.exclude[1]",
    ]


TICKETS_UNKNOWN = pytest.mark.parametrize(
    "found",
    [{"notes": NOTES}, {"notes": NOTES, "tickets": Snapshot(failed_lists={"tools": "why"})}],
)


@TICKETS_UNKNOWN
@pytest.mark.parametrize(
    "entry", ["close", "tickets:close", "tool:tickets:close", "notes://second"]
)
def test_entries_that_may_match_an_undiscovered_server_are_not_reported(
    entry: str, found: Mapping[str, Snapshot]
) -> None:
    """The scheme of a URI can be the id of another server."""
    assert warnings_of(entry, exclude={"tickets": ["close"]}, found=found) == {}


@TICKETS_UNKNOWN
def test_entries_that_only_a_discovered_server_could_match_are_reported(
    found: Mapping[str, Snapshot],
) -> None:
    exclude = {"notes": ["deleted"], "tickets": ["close"]}
    messages = warnings_of("close", "notes:gone", exclude=exclude, found=found)
    assert list(messages) == [
        "agents.json: $.agents[1].exclude_components[1]",
        "mcp.json: $.mcpServers.notes.exclude[0]",
    ]


def test_an_entry_that_names_a_disabled_server_is_not_reported() -> None:
    entries = ("tickets:close", "tool:tickets:close", "tickets://first")
    exclude = {"tickets": ["close"]}
    assert warnings_of(*entries, exclude=exclude, found={"notes": NOTES}, disabled="tickets") == {}


def test_a_disabled_server_does_not_suppress_reports_of_other_entries() -> None:
    (message,) = warnings_of("close", found={"notes": NOTES}, disabled="tickets").values()
    assert message.endswith('discovered: "notes"')


def test_without_a_server_an_entry_can_match_local_tools_only() -> None:
    entries = ("read_doc_pages", "read_doc_page")
    profile = AgentProfile(name="reader", exclude_components=entries)
    (problem,) = find_unmatched_exclusions(
        agents=Agents(profiles={"reader": profile}),
        configuration=Configuration(),
        snapshots={},
        local_tools=["read_doc_pages"],
    )
    reason = '"read_doc_page" matches no tool of the gateway, and no server is enabled'
    assert problem.message == reason


def test_an_entry_of_many_agents_is_reported_once_with_its_paths() -> None:
    (message,) = warnings_of(*["search_"] * 10).values()
    assert message.endswith(
        "(also at 9 more places, such as $.agents[1].exclude_components[1], "
        "$.agents[1].exclude_components[2], $.agents[1].exclude_components[3])"
    )


def test_the_number_of_reported_entries_is_limited() -> None:
    messages = warnings_of(*(f"x{index}" for index in range(MAX_PROBLEMS + 3)))
    assert list(messages.items())[-1] == ("agents.json: $", "has 3 more problems")
