"""Which entries of exclusions name nothing that there is, and what is told of them."""

from collections.abc import Mapping, Sequence

import pytest

from mcp_tools_proxy.config.json_file import MAX_PROBLEMS
from mcp_tools_proxy.config.unmatched_exclusions import MAX_HINTS, find_unmatched_exclusions
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import AgentProfile, Agents, Configuration
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.domain.snapshot import InvalidItem, Snapshot
from tests.support.builders import make_snapshot

NOTES = make_snapshot(
    tools=["search", "drop_note"],
    prompts=["draft"],
    resources=["notes://first"],
    templates=["notes://by-id/{id}"],
)
TICKETS = make_snapshot(tools=["search", "close"])
BOTH = {"notes": NOTES, "tickets": TICKETS}


def told(
    *entries: str,
    exclude: Mapping[str, Sequence[str]] | None = None,
    found: Mapping[str, Snapshot] = BOTH,
    disabled: str | None = None,
    certain_only: bool = False,
) -> dict[str, str]:
    """Give the messages by ``file: path``; one agent has ``entries``, mcp.json ``exclude``."""
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
        certain_only=certain_only,
    )
    return {f"{it.file}: {it.path}": it.message for it in problems}


@pytest.mark.requirement("A-15", "A-18")
@pytest.mark.parametrize(
    "entry",
    [
        *("search", "tool:search", "notes:search", "tool:tickets:search"),
        *("prompt:draft", "notes:draft", "resource:notes:notes://first", "notes://by-id/{id}"),
        *("read_doc_pages", "tool:read_doc_pages"),
    ],
)
def test_an_entry_that_names_something_in_any_spelling_is_not_told(entry: str) -> None:
    assert told(entry) == {}


@pytest.mark.requirement("A-20")
@pytest.mark.parametrize(
    "entry",
    ["notes://by-id/7", "NOTES://by-ID/7", "resource:notes://by-id/7", "notes:notes://by-id/7"],
)
def test_a_uri_that_begins_as_a_template_does_is_not_told(entry: str) -> None:
    assert told(entry) == {}


@pytest.mark.requirement("A-15", "A-18")
@pytest.mark.parametrize(
    "entry",
    [
        *("Search", "prompt:search", "tickets:draft", "notes__search", "notes: search"),
        *("notes:read_doc_pages", "prompt:read_doc_pages", "notes://second", "other:search"),
        *("tickets:notes://by-id/7", "tool:notes://by-id/7"),
    ],
)
def test_an_entry_that_names_nothing_is_told_at_its_place(entry: str) -> None:
    assert list(told("search", entry)) == ["agents.json: $.agents[1].exclude_components[1]"]


@pytest.mark.parametrize(
    ("entry", "meant"),
    [
        ("search_", "search"),
        ("notes:drop_nots", "notes:drop_note"),
        ("prompt:search", "notes:search"),
        ("tikets:close", "tickets:close"),
        ("read_doc_page", "read_doc_pages"),
    ],
)
def test_the_spelling_that_is_most_like_it_is_offered(entry: str, meant: str) -> None:
    (message,) = told(entry).values()
    assert message == f'"{entry}" names nothing that there is; did you mean "{meant}"?'


def test_an_entry_that_is_like_nothing_has_no_effect() -> None:
    (message,) = told("weather").values()
    assert message == '"weather" names nothing that there is, so it has no effect'


def test_what_a_server_offers_and_cannot_be_used_is_something() -> None:
    broken = InvalidItem(kind=Kind.TOOL, name="broken", reason="its schema is none")
    assert told("broken", found={**BOTH, "notes": Snapshot(dropped=(broken,))}) == {}


@pytest.mark.requirement("A-01", "A-15")
def test_a_servers_own_list_is_about_what_this_server_offers() -> None:
    exclude = {"notes": ["search", "close", "read_doc_pages"], "tickets": ["search", "draft"]}
    assert list(told(exclude=exclude)) == [
        "mcp.json: $.mcpServers.notes.exclude[1]",
        "mcp.json: $.mcpServers.notes.exclude[2]",
        "mcp.json: $.mcpServers.tickets.exclude[1]",
    ]


MAYBE = 'it may be of a server that did not tell all that it offers: "tickets"'


@pytest.mark.parametrize("entry", ["close", "tickets:close", "tool:tickets:close"])
@pytest.mark.parametrize(
    "found",
    [{"notes": NOTES}, {"notes": NOTES, "tickets": Snapshot(failed_lists={"tools": "why"})}],
)
def test_what_may_be_of_a_server_that_did_not_tell_all_is_told_as_such(
    entry: str, found: Mapping[str, Snapshot]
) -> None:
    (message,) = told(entry, found=found).values()
    assert message == f'"{entry}" names nothing that was found; {MAYBE}'


def test_a_uri_may_be_of_any_server_also_where_its_scheme_is_the_id_of_one() -> None:
    (message,) = told("notes://second", found={"notes": NOTES}).values()
    assert MAYBE in message


def test_a_list_of_a_server_that_was_not_discovered_is_told_as_such() -> None:
    (message,) = told(exclude={"tickets": ["close"]}, found={"notes": NOTES}).values()
    assert MAYBE in message


def test_only_what_is_certain_is_told_when_asked_for() -> None:
    exclude = {"notes": ["gone"], "tickets": ["close"]}
    messages = told(
        "close", "notes:gone", exclude=exclude, found={"notes": NOTES}, certain_only=True
    )
    assert list(messages) == [
        "agents.json: $.agents[1].exclude_components[1]",
        "mcp.json: $.mcpServers.notes.exclude[0]",
    ]


def test_nothing_is_told_of_a_disabled_server() -> None:
    entries = ("tickets:close", "tool:tickets:close", "tickets://first")
    exclude = {"tickets": ["close"]}
    assert told(*entries, exclude=exclude, found={"notes": NOTES}, disabled="tickets") == {}


def test_what_may_be_of_a_disabled_server_without_naming_it_is_told() -> None:
    (message,) = told("close", found={"notes": NOTES}, disabled="tickets").values()
    assert message.endswith("so it has no effect")


def test_only_the_first_wrong_entries_get_a_hint() -> None:
    messages = told(*(f"search{index}" for index in range(MAX_HINTS + 5))).values()
    assert [("did you mean" in it) for it in messages] == [True] * MAX_HINTS + [False] * 5


def test_an_entry_that_many_have_is_told_once_with_its_places() -> None:
    messages = told(*["search_"] * MAX_HINTS, "drop_nots")
    first, last = messages.values()
    assert ("did you mean" in first, "did you mean" in last) == (True, True)
    assert first.endswith(
        "(also at 9 more places, such as $.agents[1].exclude_components[1], "
        "$.agents[1].exclude_components[2], $.agents[1].exclude_components[3])"
    ), first


def test_of_very_many_entries_the_first_are_told() -> None:
    messages = told(*(f"x{index}" for index in range(MAX_PROBLEMS + 3)))
    assert list(messages.items())[-1] == ("agents.json: $", "has 3 more problems")
