"""Links and file locations in the overview."""

from pathlib import Path
from typing import Any

from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.configuration import Config, make_preset, make_rule
from tests.support.console_browser import Html, running_console
from tests.support.mcp_servers.raw_web import running_raw

OVERVIEW = "/console"


def rows(page: Html) -> list[str]:
    """Return the lines that need attention."""
    shown = page.text.partition("Needs attention")[2].partition("Calls in the last hour")[0]
    return shown.split(" Details of ")


async def test_a_mistake_in_a_file_is_shown_with_its_position() -> None:
    config = Config(
        servers={"bad": {"command": 5}, "odd": {"url": "http://127.0.0.1:9/mcp", "oops": 1}},
        presets=[make_preset("work"), {**make_preset("half"), "tools": 5}],
        limits=[make_rule(calls="many")],
        more={"defaultPresetId": "work"},
    )
    async with running_console(config=config) as console:
        page = await console.browser.open(OVERVIEW)
    assert "mcp.json at $.mcpServers.bad.command: " in page.text
    assert "limits.json at $.rules[0]" in page.text
    links = set(page.links)
    assert {"/console/servers/bad", "/console/visibility", "/console/limits"} <= links


async def test_an_invalid_document_links_to_the_documents(tmp_path: Path) -> None:
    documents, tokens = tmp_path / "documents", tmp_path / "tokens.jsonl"
    (documents / "acme").mkdir(parents=True)
    (documents / "acme" / "broken.json").write_text("{", encoding="utf-8")
    principal = Principal(tenant_id=None, rights=frozenset({OperatorRight.AUDIT}))
    token, _ = add_token(tokens, principal)
    with tokens.open("a", encoding="utf-8") as file:
        file.write("no token\n")
    settings = {"auth_mode": "token", "tokens_file": str(tokens), "documents_dir": str(documents)}
    async with running_console(**settings) as console:
        page = await console.browser.open(OVERVIEW)
        assert "documents: 1 file is invalid Details of documents" in page.text
        shown = page.text.partition("Needs attention")[2]
        assert "Details of tokens" in shown
        found = [it for it in page.links if it in ("/console/documents", "/console/tokens")]
        assert sorted(found) == ["/console/documents"] * 2 + ["/console/tokens"] * 2
        browser = console.new_browser()
        await browser.sign_in(token)
        without = await browser.open(OVERVIEW)
        assert "documents: 1 file is invalid" in without.text
        assert "/console/documents" not in without.links


async def test_calls_without_a_server_are_not_linked() -> None:
    async with running_raw(only=("echo",)) as server:
        config = Config(
            servers={"other": server.entry},
            presets=[make_preset("work", tools=[("other", "echo")])],
            more={"defaultPresetId": "work"},
        )
        async with running_console(config=config, require_agent=False) as console:
            await console.service.result("other:echo", {"text": "a"})
            await console.service.code("no-such-tool")
            page = await console.browser.open(OVERVIEW)
    assert "No server (document tools, unknown names)" in page.text
    assert "/console/calls?server=other&tenant_id=" in page.links


async def test_omitted_budgets_are_counted() -> None:
    settings: dict[str, Any] = {"rate_limit_tenant_calls": 1}
    async with running_console(require_agent=False, **settings) as console:
        for number in range(12):
            await console.service.code(
                "read_doc_metadata", {"doc_id": "d"}, tenant_id=f"t{number:02}"
            )
        page = await console.browser.open(OVERVIEW)
        assert "2 more are almost used up" in page.text
        assert "/console/limits" in page.links
        limits = await console.browser.open("/console/limits")
        assert all(f"t{number:02}" in limits.text for number in range(12))
