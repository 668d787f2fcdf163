"""Budgets: remaining amounts, permissions, and the location of each setting."""

from pathlib import Path

import pytest

from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.configuration import Config, make_rule
from tests.support.console_browser import Html, running_console
from tests.support.service import request_of

LIMITS = "/console/limits"
EXPLAIN = "/internal/mcp/explain"
SETTINGS = {
    "config": Config(limits=[make_rule("each_user", each=["user"], calls=2)]),
    "rate_limit_calls": 4,
    "rate_limit_tokens": 4000,
    "rate_limit_tenant_calls": 9,
    "rate_limit_tenant_tokens": 9000,
}


async def test_the_tightest_budget_is_first_and_each_shows_its_location() -> None:
    query = {"user_id": "user_1", "tool": "read_doc_metadata", "doc_id": "doc_1"}
    async with running_console(**SETTINGS) as console:
        await console.service.result("read_doc_metadata", {"doc_id": "doc_1"})
        await console.service.result("read_doc_metadata", {"doc_id": "doc_1"})
        page = await console.browser.open(LIMITS, tenant_id="tenant_1", **query)
        explained = await console.service.http.post(
            EXPLAIN,
            json=request_of("read_doc_metadata", {"doc_id": "doc_1"}),
            headers={"authorization": "Bearer correct-horse-battery"},
        )
    assert "0 of 2 calls used up" in page.text
    assert page.text.index("each_user0 of 2") < page.text.index("document_calls2 of 4 calls")
    assert "tenant_calls7 of 9 calls" in page.text
    places = {budget["name"]: budget["rule"] for budget in explained.json()["budgets"]}
    assert len(places) == 5
    for name, place in places.items():
        is_setting = place["file"] == "settings"
        assert (place["path"] if is_setting else f"limits.json, rule {name}") in page.text
    assert "Calls refused by a budget" in page.text


async def test_budgets_that_are_almost_exhausted_link_to_their_tenant() -> None:
    async with running_console(**SETTINGS) as console:
        await console.service.result("read_doc_metadata", {"doc_id": "doc_1"})
        await console.service.result("read_doc_metadata", {"doc_id": "doc_1"})
        page = await console.browser.open(LIMITS)
    assert "tenant_1each_user0 of 2 calls used up" in page.text
    assert f"{LIMITS}?tenant_id=tenant_1" in page.links


async def test_without_a_tenant_the_page_asks_for_one() -> None:
    async with running_console() as console:
        page = await console.browser.open(LIMITS)
        assert "All budgets have more than 20% left" in page.text
        assert "Enter a tenant above" in page.text
        unlimited = await console.browser.open(LIMITS, tenant_id="tenant_1")
        assert "No budgets apply" in unlimited.text


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("tool=nothing", "No tool is named"),
        ("user_id=a%01", "Holds a character that is not allowed"),
    ],
)
async def test_an_invalid_call_is_reported_next_to_its_field(query: str, problem: str) -> None:
    async with running_console() as console:
        response = await console.browser.get(f"{LIMITS}?tenant_id=tenant_1&{query}")
    assert (response.status_code, problem in Html(response.text).text) == (422, True)
    assert 'aria-invalid="true"' in response.text


async def test_names_are_shown_as_text() -> None:
    markup = "<script>alert(1)</script>"
    async with running_console() as console:
        page = await console.browser.open(LIMITS, tenant_id=markup, agent=markup)
    assert [it for tag, it in page.tags if tag == "script" and "src" not in it] == []


async def test_a_right_for_one_tenant_shows_only_that_tenant(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.jsonl"
    rights = frozenset({OperatorRight.AUDIT})
    token, _ = add_token(tokens, Principal(tenant_id="tenant_1", rights=rights))
    no_audit = frozenset({OperatorRight.DOCUMENTS})
    none, _ = add_token(tokens, Principal(tenant_id="tenant_1", rights=no_audit))
    settings = {"auth_mode": "token", "tokens_file": str(tokens), "rate_limit_tenant_calls": 9}
    async with running_console(**settings) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        page = await browser.open(LIMITS, tenant_id="tenant_2")
        assert "Budgets of tenant_1" in page.text
        assert "tenant_id" not in page.form(LIMITS).fields
        other = console.new_browser()
        await other.sign_in(none)
        assert (await other.get(LIMITS)).status_code == 403
