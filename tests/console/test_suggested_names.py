"""Names instead of ids: suggestions of fields, and names of tokens and servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.console_browser import ConsoleBrowser, ConsoleService, Html, running_console
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import EXECUTE
from tests.support.tokens import bearer

CALLS, SERVERS, TOKENS = "/console/calls", "/console/servers", "/console/tokens"
MARKUP = "<img src=x onerror=alert(1)>"
FULL = frozenset(OperatorRight)


def suggested(page: Html, kind: str) -> list[str]:
    start = ("datalist", {"id": f"known-{kind}"})
    if start not in page.tags:
        return []
    names = []
    for tag, attributes in page.tags[page.tags.index(start) + 1 :]:
        if tag != "option":
            break
        names.append(str(attributes["value"]))
    return names


@asynccontextmanager
async def serving(folder: Path, **settings: object) -> AsyncIterator[ConsoleService]:
    """Serve a console after calls of two tenants, each with one document tool."""
    tokens = folder / "tokens.jsonl"
    callers = {
        "acme": Principal(tenant_id="acme", user_id="ann", agents=frozenset({"desk"})),
        "initech": Principal(tenant_id="initech", user_id="ike"),
    }
    async with running_raw(only=("whoami",)) as server:
        config = Config(
            servers={"s": {**server.entry, "name": f"Weather {MARKUP}"}, "plain": server.entry},
            presets=[make_preset("work", tools=[("s", "whoami")])],
            agents=[make_agent("desk"), make_agent("writer")],
            more={"defaultPresetId": "work"},
        )
        options = {"auth_mode": "token", "tokens_file": str(tokens), "require_agent": False}
        made = {
            it: add_token(tokens, caller, note=f"bot of {it}") for it, caller in callers.items()
        }
        async with running_console(config=config, **options, **settings) as console:
            for token, _ in made.values():
                await call(console, token)
            yield console


async def call(console: ConsoleService, token: str, tool: str = "list_documents") -> None:
    body = {"tool_name": tool, "arguments": {}}
    await console.service.http.post(EXECUTE, json=body, headers=bearer(token))


async def signed_in(
    console: ConsoleService, folder: Path, principal: Principal, note: str = ""
) -> ConsoleBrowser:
    verifier = console.service.gateway.tokens
    token, _ = add_token(folder / "tokens.jsonl", principal, note=note)
    assert verifier is not None
    await verifier.load()
    browser = console.new_browser()
    await browser.sign_in(token)
    return browser


@pytest.mark.parametrize("audit", ["log", "file:audit.jsonl"])
async def test_an_operator_of_all_tenants_gets_suggestions_from_all(
    tmp_path: Path, audit: str
) -> None:
    async with serving(tmp_path, audit=audit) as console:
        page = await console.browser.open(CALLS)
        assert suggested(page, "tenants") == ["acme", "initech"]
        assert suggested(page, "users") == ["ann", "ike"]
        assert suggested(page, "servers") == ["plain", "s"]
        assert "s:whoami" in suggested(page, "tools")
        assert {"desk", "writer"} <= {*suggested(page, "agents")}
        of_acme = await console.browser.open(CALLS, tenant_id="acme")
        assert suggested(of_acme, "users") == ["ann"]


async def test_an_operator_of_one_tenant_gets_suggestions_from_that_tenant(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as console:
        browser = await signed_in(console, tmp_path, Principal(tenant_id="acme", rights=FULL))
        for path in ("/console", CALLS, "/console/visibility", "/console/try", "/console/limits"):
            page = await browser.open(path)
            assert suggested(page, "tenants") == []
            assert suggested(page, "users") in ([], ["ann"])
            for foreign in ("ike", "initech", "writer"):
                assert foreign not in page.text
                assert all(foreign not in str(it.values()) for _, it in page.tags)


async def test_suggestions_need_the_right_to_see_callers(tmp_path: Path) -> None:
    documents = frozenset({OperatorRight.DOCUMENTS})
    async with serving(tmp_path) as console:
        browser = await signed_in(console, tmp_path, Principal(tenant_id=None, rights=documents))
        page = await browser.open("/console/documents")
        assert suggested(page, "tenants") == ["acme", "initech"]
        assert suggested(page, "users") == suggested(page, "tools") == []
        of_acme = await signed_in(console, tmp_path, Principal(tenant_id="acme", rights=documents))
        page = await of_acme.open("/console/documents/upload")
        assert [tag for tag, _ in page.tags].count("datalist") == 0


async def test_the_signed_in_user_is_shown_by_the_note_of_the_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as console:
        principal = Principal(tenant_id=None, rights=FULL)
        ops = await signed_in(console, tmp_path, principal, note="ops")
        assert "Signed in as ops" in (await ops.open("/console")).text
        page = await console.browser.open("/console")
        assert "Signed in as admin token" in page.text


async def test_tokens_and_servers_are_shown_by_their_names(tmp_path: Path) -> None:
    async with serving(tmp_path) as console:
        principal = Principal(tenant_id="acme", rights=frozenset({OperatorRight.AUDIT}))
        desk = await signed_in(console, tmp_path, principal, note="help desk")
        await desk.open("/console")
        listed = await console.browser.open(CALLS, event="operator.right_used")
        assert "help desk" in listed.text
        tokens = await console.browser.open(TOKENS)
        assert "bot of initech" in tokens.text
        of_acme = await desk.open(CALLS)
        assert "bot of initech" not in of_acme.text
        servers = await console.browser.open(SERVERS)
        assert f"Weather {MARKUP}" in servers.text
        assert [it for _, it in servers.tags if "onerror" in it] == []
        one = await console.browser.open(f"{SERVERS}/s")
        assert f"Weather {MARKUP} s" in one.text


async def test_many_names_keep_the_page_small(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.jsonl"
    for number in range(300):
        add_token(tokens, Principal(tenant_id=f"{number:03}{'t' * 250}", user_id="u" * 256))
    options = {"auth_mode": "token", "tokens_file": str(tokens)}
    async with running_console(**options) as console:
        response = await console.browser.get(CALLS)
        assert len(response.text) < 60_000
        assert 0 < len(suggested(Html(response.text), "tenants")) <= 50
