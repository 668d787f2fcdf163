"""The agent is a choice with the first profile preselected; no problem removes a form."""

from collections.abc import AsyncIterator
from itertools import takewhile
from pathlib import Path

import pytest

from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.configuration import Config, make_agent
from tests.support.console_browser import ConsoleService, Html, running_console
from tests.support.service import CONFIG_DIR, EXECUTE, request_of
from tests.support.tables import named_row
from tests.support.tokens import bearer, file_token, token_settings

ACCESS, WHY = "/console/visibility", "/console/visibility/why"
TRY, LIMITS, SEARCH = "/console/try", "/console/limits", "/console/documents/search"
CALLS = "/console/calls"
PROFILES = Config(agents=[make_agent("writer"), make_agent("desk", exclude=["verify_quote"])])
SELECT = ("select", "agent")
CALLER = {"tenant_id": "tenant_1", "user_id": "ann"}


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console(config=PROFILES, rate_limit_tenant_calls=9) as started:
        yield started


def agents_offered(page: Html) -> list[str | None] | None:
    """Return the values of the first choice of an agent, or None."""
    selects = [at for at, (tag, it) in enumerate(page.tags) if (tag, it.get("name")) == SELECT]
    if not selects:
        return None
    after = page.tags[selects[0] + 1 :]
    return [it.get("value") for tag, it in takewhile(lambda it: it[0] == "option", after)]


async def test_the_first_profile_is_preselected(console: ConsoleService) -> None:
    for path, query in [
        (ACCESS, {}),
        (WHY, {}),
        (TRY, {}),
        (TRY, {"tool": "read_doc_pages", **CALLER}),
        (LIMITS, {"tenant_id": "tenant_1"}),
        (SEARCH, {"tenant_id": "tenant_1", "query": "page"}),
    ]:
        with named_row(path, query):
            response = await console.browser.get(
                f"{path}?{'&'.join(f'{k}={v}' for k, v in query.items())}"
            )
            page = Html(response.text)
            assert page.form(path).fields["agent"] == "desk"
            assert (response.status_code, agents_offered(page)) == (200, ["desk", "writer"])


async def test_pages_use_the_selected_profile(console: ConsoleService) -> None:
    assert "verify_quote" not in (await console.browser.open(ACCESS)).text
    writer = await console.browser.open(ACCESS, agent="writer")
    assert "verify_quote" in writer.text
    assert writer.form(ACCESS).fields["agent"] == "writer"
    tools = await console.browser.open(TRY, agent="writer", **CALLER)
    assert "verify_quote" in tools.text


async def test_the_second_caller_has_the_same_agent_unless_another_is_selected(
    console: ConsoleService,
) -> None:
    page = await console.browser.open(ACCESS)
    assert page.form(ACCESS).fields["other_agent"] == ""
    same = await console.browser.open(ACCESS, compare="yes", differing="yes")
    assert "verify_quote" not in same.text
    other = await console.browser.open(ACCESS, other_agent="writer", differing="yes")
    assert "verify_quote" in other.text


async def test_without_required_agents_none_is_preselected() -> None:
    async with running_console(config=PROFILES, require_agent=False) as console:
        page = await console.browser.open(ACCESS)
        assert page.form(ACCESS).fields["agent"] == ""
        assert agents_offered(page) == ["", "desk", "writer"]
        assert "verify_quote" in page.text


async def test_removing_a_profile_keeps_the_form(console: ConsoleService) -> None:
    response = await console.browser.get(f"{ACCESS}?agent=gone")
    page = Html(response.text)
    assert (response.status_code, page.form(ACCESS).fields["agent"]) == (422, "gone")
    assert agents_offered(page) == ["desk", "writer", "gone"]


async def test_an_invalid_agents_file_keeps_the_forms() -> None:
    Config().write(CONFIG_DIR)
    (CONFIG_DIR / "agents.json").write_text("{", encoding="utf-8")
    async with running_console() as console:
        query = "tenant_id=tenant_1&agent=x"
        for path, more in ((ACCESS, ""), (TRY, ""), (LIMITS, "&tool=read_doc_pages")):
            response = await console.browser.get(f"{path}?{query}{more}")
            assert "Choose an agent" in response.text or "is invalid" in response.text
            assert Html(response.text).form(path).fields["agent"] == "x"


async def test_a_problem_is_shown_with_the_form(console: ConsoleService) -> None:
    for path, query in [
        (ACCESS, "preset_id=none"),
        (ACCESS, f"tenant_id={'x' * 300}"),
        (ACCESS, "user_id=a%01"),
        (ACCESS, "other_agent=none"),
        (WHY, "tool=x&tenant_id=tenant_1&agent=none"),
        (WHY, "tool=x&tenant_id=tenant_1&user_id=a%01"),
        (TRY, "tenant_id=a%01"),
        (TRY, "agent=none"),
        (LIMITS, "tenant_id=tenant_1&tool=read_doc_pages&agent=none"),
        (LIMITS, "tenant_id=a%01"),
        (SEARCH, "tenant_id=tenant_1&query=page&agent=none"),
        (SEARCH, "tenant_id=a%01&query=page"),
        (CALLS, "cursor=none"),
        (CALLS, "agent=a%01"),
    ]:
        with named_row(path, query):
            response = await console.browser.get(f"{path}?{query}")
            page = Html(response.text)
            assert response.status_code < 500
            assert page.form(path).fields
            classes = {attributes.get("class") for _, attributes in page.tags}
            assert classes & {"problem", "notice bad", "notice warn"}


async def test_an_operator_of_one_tenant_can_select_the_agents_of_its_tokens(
    tmp_path: Path,
) -> None:
    tokens = tmp_path / "tokens.jsonl"
    rights = frozenset({OperatorRight.AUDIT, OperatorRight.RUN})
    token, _ = add_token(tokens, Principal(tenant_id="tenant_1", rights=rights))
    bound, _ = add_token(
        tokens,
        Principal(tenant_id="tenant_1", rights=rights, agents=frozenset({"writer"})),
    )
    for tenant, agent in (("tenant_1", "writer"), ("tenant_2", "desk")):
        add_token(tokens, Principal(tenant_id=tenant, agents=frozenset({agent})))
    settings = {"auth_mode": "token", "tokens_file": str(tokens), "config": PROFILES}
    async with running_console(**settings) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        page = await browser.open(ACCESS)
        assert (agents_offered(page), page.form(ACCESS).fields["agent"]) == (None, "writer")
        assert "desk" not in [it.get("value") for tag, it in page.tags if tag == "option"]
        assert "verify_quote" in page.text
        limited = console.new_browser()
        await limited.sign_in(bound)
        assert agents_offered(await limited.open(TRY, user_id="ann")) == ["writer"]


async def test_an_operator_of_one_tenant_can_select_the_agents_of_its_calls() -> None:
    rights = [OperatorRight.AUDIT, OperatorRight.RUN, OperatorRight.DOCUMENTS]
    token = file_token(tenant="acme", may=rights)
    callers = {name: bearer(file_token(tenant=name)) for name in ("acme", "other")}
    async with running_console(**token_settings(), config=PROFILES) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        before = await browser.open(ACCESS)
        assert before.form(ACCESS).fields["agent"] == ""
        assert "Choose an agent above" in before.text
        for tenant, agent in (("acme", "writer"), ("acme", "unknown"), ("other", "desk")):
            body = {**request_of("verify_quote", {}, tenant_id=tenant), "agent": agent}
            await console.service.http.post(EXECUTE, json=body, headers=callers[tenant])
        for path in (ACCESS, TRY, LIMITS):
            page = await browser.open(path)
            assert page.form(path).fields["agent"] == "writer"
            assert "desk" not in [it.get("value") for tag, it in page.tags if tag == "option"]
