"""The overview and the previews of presets: contents, permissions, and escaping."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.console_browser import ADMIN, ConsoleService, Html, running_console
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import ACTIVE
from tests.support.tokens import bearer

MARKUP = "<img src=x onerror=alert(1)>"
SCHEMA = {"type": "object", "properties": {MARKUP: {"type": "string", "description": MARKUP}}}
VISIBILITY = "/console/visibility"
TOOL = "s:whoami"
DESCRIBED = {"serverId": "s", "toolName": "whoami", "overrides": {"description": "Says who calls."}}


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    hostile = {"name": "odd", "description": MARKUP, "title": MARKUP, "inputSchema": SCHEMA}
    async with running_raw(only=("whoami", "echo"), extra={"tools": [hostile]}) as server:
        config = Config(
            servers={
                "s": server.entry,
                "dead": {"url": "http://127.0.0.1:9/mcp"},
                f"{MARKUP}:": server.entry,  # invalid: a name with a colon
            },
            presets=[
                make_preset("work", tools=[("s", "whoami"), ("s", "odd"), ("s", MARKUP)]),
                make_preset("all", tools=[("s", "whoami"), ("s", "echo")]),
                {"id": "described", "name": "Described", "tools": [DESCRIBED]},
            ],
            agents=[make_agent("helper"), make_agent("narrow", exclude=[TOOL])],
            more={"defaultPresetId": "work"},
        )
        async with running_console(config=config, require_agent=False) as started:
            yield started


def is_text(page: Html) -> bool:
    """Return whether foreign markup is shown, as text only."""
    return MARKUP in page.text and all("onerror" not in attributes for _, attributes in page.tags)


async def test_the_overview_links_to_items_that_need_attention(console: ConsoleService) -> None:
    page = await console.browser.open("/console")
    assert is_text(page)
    assert "/console/servers/%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%3A" in page.links
    assert "Calls in the last hour" in page.text


async def test_the_overview_of_a_tenant_shows_no_server_errors(
    console: ConsoleService,
) -> None:
    whole = await console.browser.open("/console")
    page = await console.browser.open("/console", tenant_id="acme")
    assert ("connection refused" in whole.text, "connection refused" in page.text) == (True, False)


async def test_a_preview_shows_the_tools_of_a_caller_and_their_tokens(
    console: ConsoleService,
) -> None:
    page = await console.browser.open(VISIBILITY, tenant_id="acme", agent="helper")
    assert TOOL in page.text
    assert "s:echo" not in page.text
    assert "tokens (estimated)" in page.text
    assert ("option", {"value": "narrow"}) in page.tags
    one = await console.browser.open(f"{VISIBILITY}/tool", name=TOOL, tenant_id="acme")
    assert ("MCP" in one.text, "OpenAI" in one.text, "input_schema" in one.text) == (True,) * 3


async def test_two_previews_side_by_side_show_their_differences(
    console: ConsoleService,
) -> None:
    page = await console.browser.open(
        VISIBILITY, compare="yes", differing="yes", other_preset_id="all", tenant_id="acme"
    )
    assert "s:echo" in page.text
    assert TOOL not in page.text


async def test_a_tool_with_overridden_texts_differs(console: ConsoleService) -> None:
    query = {"preset_id": "described", "other_preset_id": "work", "tenant_id": "acme"}
    page = await console.browser.open(VISIBILITY, compare="yes", differing="yes", **query)
    assert "different definition" in page.text
    assert "list_documents" not in page.text


async def test_a_hidden_tool_links_to_the_reason(console: ConsoleService) -> None:
    page = await console.browser.open(
        VISIBILITY, compare="yes", other_agent="narrow", other_preset_id="work", tenant_id="acme"
    )
    (reason,) = [it for it in page.links if it.startswith(f"{VISIBILITY}/why?")]
    why = await console.browser.open(reason)
    assert "Remove this entry from the agent’s profile" in why.text


async def test_an_unknown_agent_is_reported_next_to_the_field(
    console: ConsoleService,
) -> None:
    for query in ({"agent": "nobody"}, {"other_agent": "nobody"}):
        response = await console.browser.get(f"{VISIBILITY}?{urlencode(query)}")
        page = Html(response.text)
        assert (response.status_code, "No agent profile is named" in page.text) == (422, True)


async def test_a_second_caller_starts_the_comparison_without_a_checkbox(
    console: ConsoleService,
) -> None:
    page = await console.browser.open(VISIBILITY, other_agent="helper")
    assert "Other caller" in page.text


async def test_an_unknown_address_has_an_error_page(console: ConsoleService) -> None:
    response = await console.browser.get("/console/nothing")
    assert (response.status_code, "Page not found" in response.text) == (404, True)


async def test_the_preset_can_be_switched_after_a_preview(console: ConsoleService) -> None:
    shown_on = f"{VISIBILITY}?preset_id=all"
    response = await console.browser.press(f"{VISIBILITY}/switch", on=shown_on)
    assert "Preset all is active" in Html(response.text).text
    page = await console.browser.open(VISIBILITY)
    assert "s:echo" in page.text


async def test_the_reason_for_a_hidden_tool_names_the_rule(console: ConsoleService) -> None:
    page = await console.browser.open(f"{VISIBILITY}/why", tool="s:echo", tenant_id="acme")
    assert "No. Not visible under the active preset." in page.text
    assert "Add the tool to this preset, or activate another preset." in page.text
    assert "Message to the caller" in page.text
    absent = await console.browser.open(f"{VISIBILITY}/why", tool="s:none", tenant_id="acme")
    assert 'No. Server "s" does not offer this tool.' in absent.text
    assert "Rule:" not in absent.text
    seen = await console.browser.open(f"{VISIBILITY}/why", tool=TOOL, tenant_id="acme")
    assert "Yes. This caller has access with preset work" in seen.text


@pytest.mark.parametrize(
    ("query", "sentence"),
    [({"tool": ""}, "Enter a tool."), ({"tool": "x"}, "Enter the user's tenant")],
)
async def test_a_missing_value_is_reported_next_to_the_field(
    console: ConsoleService, query: dict[str, str], sentence: str
) -> None:
    page = await console.browser.open(f"{VISIBILITY}/why", **query)
    assert sentence in page.text


async def test_foreign_markup_is_text_on_every_page(console: ConsoleService) -> None:
    for path in ("/console/servers", VISIBILITY, f"{VISIBILITY}?preset_id=all"):
        page = Html((await console.browser.get(path)).text)
        assert all("onerror" not in attributes for _, attributes in page.tags), path
    shown = await console.browser.open(f"{VISIBILITY}/tool", name="s:odd", tenant_id="acme")
    assert is_text(shown)
    why = await console.browser.open(f"{VISIBILITY}/why", tool=MARKUP, tenant_id=MARKUP)
    assert is_text(why)


async def test_a_right_for_one_tenant_previews_only_that_tenant(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.jsonl"
    principal = Principal(tenant_id="acme", rights=frozenset({OperatorRight.AUDIT}))
    token, _ = add_token(tokens, principal)
    async with running_console(auth_mode="token", tokens_file=str(tokens)) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        page = await browser.open(VISIBILITY, tenant_id="rival")
        assert "tenant acme" in page.text
        assert "rival" not in page.text
        assert (await browser.get("/console?tenant_id=rival")).status_code == 200


async def test_without_the_right_to_switch_presets_the_button_is_hidden_and_the_form_refused(
    tmp_path: Path,
) -> None:
    tokens = tmp_path / "tokens.jsonl"
    principal = Principal(tenant_id="acme", rights=frozenset({OperatorRight.AUDIT}))
    token, _ = add_token(tokens, principal)
    config = Config(
        presets=[make_preset("work"), make_preset("all")], more={"defaultPresetId": "work"}
    )
    settings = {"config": config, "auth_mode": "token", "tokens_file": str(tokens)}
    async with running_console(**settings) as console:
        switch = f"{VISIBILITY}/switch"
        browser = console.new_browser()
        await browser.sign_in(token)
        page = await browser.open(VISIBILITY, preset_id="all")
        assert switch not in [it.action for it in page.forms]
        fields = {"preset_id": "all", "csrf": page.form("/console/sign-out").fields["csrf"]}
        refused = await browser.post(switch, fields)
        assert (refused.status_code, "operator right" in refused.text) == (403, True)
        active = await console.service.http.get(ACTIVE, headers=bearer(ADMIN))
        assert active.json()["preset"]["id"] == "work"


async def test_users_without_the_overview_are_redirected_to_the_first_accessible_page(
    tmp_path: Path,
) -> None:
    tokens = tmp_path / "tokens.jsonl"
    principal = Principal(tenant_id="acme", rights=frozenset({OperatorRight.DOCUMENTS}))
    token, _ = add_token(tokens, principal)
    async with running_console(auth_mode="token", tokens_file=str(tokens)) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        response = await browser.get("/console", follow=False)
        assert response.headers["location"] == "/console/servers"
        refused = await browser.get(VISIBILITY)
        assert (refused.status_code, "audit" in Html(refused.text).text) == (403, True)


async def test_details_of_a_refusal_are_a_list() -> None:
    broken = {**make_preset("broken"), "tools": MARKUP, "prompts": 5}
    async with running_console(config=Config(presets=[make_preset("work"), broken])) as console:
        page = await console.browser.open(VISIBILITY)
        csrf = page.form("/console/sign-out").fields["csrf"]
        form = {"csrf": csrf, "preset_id": "broken"}
        response = await console.browser.post(f"{VISIBILITY}/switch", form)
    refused = Html(response.text)
    assert (response.status_code, "Request refused" in refused.text) == (404, True)
    details = refused.text.partition("PRESET_NOT_FOUND")[2]
    assert details.startswith(" problems preset_broken.json: $.")
    assert response.text.partition("PRESET_NOT_FOUND")[2].count("<li>") >= 2
    assert "['" not in details
