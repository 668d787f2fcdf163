"""Agents in ``mcp-tools-proxy check``, with a real server."""

from pathlib import Path

import pytest

from tests.e2e.check_command import DEAD, check
from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.local_tools import LISTED_TOOLS
from tests.support.mcp_servers.server_programs import raw_entry

pytestmark = pytest.mark.e2e

LOCAL = len(LISTED_TOOLS)
WORK = make_preset("work", tools=[("s1", "echo"), ("s1", "meta")])


def write(folder: Path, *agents: Json, exclude: list[str] | None = None, **more: Json) -> None:
    """Write a folder with a server ``s1``: two tools, and a prompt, resource or template each."""
    s1 = {**raw_entry(only=["echo", "meta"]), "exclude": exclude or []}
    Config(
        servers={"s1": s1, **more},
        presets=[WORK, make_preset("less", tools=[("s1", "echo")], prompts=[], resources=[])],
        agents=agents,
        more={"defaultPresetId": "work"},
    ).write(folder / "config")


def rows(out: str, title: str) -> list[list[str]]:
    _, _, after = out.partition(title)
    _, _, *lines = after.partition("\n\n")[0].splitlines()
    return [line.split() for line in lines]


@pytest.mark.requirement("A-03", "A-04", "A-05")
def test_the_table_counts_the_visible_items_of_each_agent(tmp_path: Path) -> None:
    write(
        tmp_path,
        make_agent("all"),
        make_agent("none", client_ids=[]),
        make_agent("some", client_ids=["s1"], exclude=["echo", "greet", "read_doc_pages"]),
        make_agent("less", preset="less"),
    )
    code, out, _ = check()
    counted = [row[:-1] for row in rows(out, "Agents")]  # the last column is tokens
    assert (code, counted) == (
        0,
        [
            ["all", "-", "all", str(LOCAL + 2), "2", "1", "3"],
            ["none", "-", "none", str(LOCAL), "0", "0", "2"],
            ["some", "-", "s1", str(LOCAL), "1", "1", "3"],
            ["less", "less", "all", str(LOCAL + 1), "0", "0", "2"],
        ],
    )


def test_the_tokens_of_an_agent_are_those_of_its_tools(tmp_path: Path) -> None:
    write(tmp_path, make_agent("reader", exclude=[*LISTED_TOOLS]))
    _, out, _ = check()
    of_preset = next(row for row in rows(out, "Presets") if "work" in row)
    (of_agent,) = rows(out, "Agents")
    assert (of_agent[3], of_agent[-1]) == ("2", of_preset[-1])


@pytest.mark.requirement("A-15")
def test_entries_without_a_match_are_warnings(tmp_path: Path) -> None:
    write(tmp_path, make_agent("reader", exclude=["ecco"]), exclude=["gret", "read_doc_pages"])
    code, out, _ = check()
    offered = 'nothing offered by the servers that were discovered: "s1"'
    warnings = [line.strip() for line in out.partition("Warnings\n")[2].splitlines()[:3]]
    assert (code, warnings) == (
        0,
        [
            f'agents.json: $.agents[0].exclude_components[0]: "ecco" matches {offered}',
            f'mcp.json: $.mcpServers.s1.exclude[0]: "gret" matches {offered}',
            f'mcp.json: $.mcpServers.s1.exclude[1]: "read_doc_pages" matches {offered}',
        ],
    )


def test_entries_that_may_match_a_server_that_is_down_are_not_warnings(tmp_path: Path) -> None:
    write(tmp_path, make_agent("reader", exclude=["gone", "s1:gone"]), dead=DEAD)
    _, out, _ = check()
    assert ('"gone"' in out, '"s1:gone" matches nothing' in out) == (False, True)


@pytest.mark.requirement("A-01", "A-03", "A-05")
def test_one_agent_can_be_inspected(tmp_path: Path) -> None:
    profile = make_agent("reader", exclude=["meta", "plain"], preset="less")
    write(tmp_path, make_agent("other"), profile, exclude=["greet"])
    code, out, _ = check("--agent", "reader")
    seen = rows(out, 'Visible to agent "reader"')
    hidden = rows(out, 'Hidden from agent "reader"')
    assert (code, [row[0] for row in rows(out, "Agents")]) == (0, ["reader"])
    assert (len(seen), seen[LOCAL]) == (LOCAL + 3, ["tool", "s1:echo", "s1__echo"])
    assert hidden == [
        ["tool", "s1", "meta", "preset"],
        ["prompt", "s1", "plain", "preset"],
        ["resource", "s1", "raw://text", "preset"],
        ["resource", "s1", "raw://item/{id}", "preset"],
        ["prompt", "s1", "greet", "exclude"],
    ]


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("readr", 'no agent profile is named "readr"; did you mean "reader"?'),
        ("nobody", 'no agent profile is named "nobody"'),
    ],
)
def test_an_unknown_agent_exits_2_with_one_line(tmp_path: Path, name: str, reported: str) -> None:
    write(tmp_path, make_agent("reader"))
    assert check("--agent", name) == (
        2,
        "",
        f"mcp-tools-proxy: Invalid value for --agent: {reported}\n",
    )


def test_all_agents_are_unknown_while_agents_json_is_invalid(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "config" / "agents.json").write_text("{")
    code, _, err = check("--agent", "reader")
    assert (code, "agents.json cannot be used" in err) == (2, True)


@pytest.mark.requirement("A-07")
def test_an_invalid_agents_json_exits_1_and_refuses_calls_without_an_agent(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    (tmp_path / "config" / "agents.json").write_text("{")
    code, out, _ = check()
    assert (code, "agents.json: $: is not valid JSON" in out) == (1, True)
    assert "Calls that name no agent are refused: agents.json cannot be used." in out


@pytest.mark.parametrize(
    ("setting", "reported"),
    [
        ({}, "refused: agents.json has profiles."),
        ({"MCP_PROXY_REQUIRE_AGENT": "false"}, "taken: MCP_PROXY_REQUIRE_AGENT is false."),
        ({"MCP_PROXY_REQUIRE_AGENT": "true"}, "refused: MCP_PROXY_REQUIRE_AGENT is true."),
    ],
)
def test_the_report_says_whether_and_why_calls_without_an_agent_are_accepted(
    tmp_path: Path, setting: dict[str, str], reported: str
) -> None:
    write(tmp_path, make_agent("reader"))
    _, out, _ = check(environment=setting)
    assert f"Calls that name no agent are {reported}" in out


def test_without_agents_the_report_omits_them(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "config" / "agents.json").unlink()
    _, out, _ = check()
    assert "gent" not in out
