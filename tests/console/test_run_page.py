"""The page of a run, its export, and the links to it."""

import json
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl, urlsplit

import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.console_browser import ConsoleService, running_console
from tests.support.service import CONFIG_DIR, EXECUTE
from tests.support.tokens import file_token, token_settings

CALLS, RUN = "/console/calls", "/console/calls/run"
POLICY = """
@id("no-list")
@message("List <b>nothing</b> after a reading.")
forbid(principal, action == Action::"list_available_tools", resource) when {
  context has run && context.run.seen.contains("label:reads_private")
};
"""


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    (CONFIG_DIR / "policies").mkdir(parents=True)
    (CONFIG_DIR / "policies" / "a.cedar").write_text(POLICY)
    async with running_console() as started:
        yield started


async def call(
    console: ConsoleService,
    tool: str,
    run_id: str,
    user: str = "ann",
    tenant: str = "tenant_1",
    **arguments: object,
) -> None:
    body = {
        "tool_name": tool,
        "arguments": arguments,
        "user": {"user_id": user, "tenant_id": tenant},
        "run": {"id": run_id},
    }
    await console.service.http.post(EXECUTE, json=body)


async def test_a_run_is_shown_with_its_sums_calls_and_policies(console: ConsoleService) -> None:
    await call(console, "list_available_tools", "r1")
    await call(console, "read_doc_pages", "r1", doc_id="doc_1", page_start=1, page_end=2)
    await call(console, "list_available_tools", "r1")
    page = await console.browser.open(RUN, run_id="r1")
    for text in (
        "Calls3 Refused1 Failed0",
        "Tenant tenant_1, user ann",
        "Documents read doc_1",
        "p. 1–2",
        "Read read_doc_pages 1 call",
        "Refused POLICY_DENIED 1 call no-list",
        "POLICY_DENIED no-list List <b>nothing</b> after a reading.",
        "reads_private",
    ):
        assert text in page.text, text
    record = next(it for it in page.links if "?at=" in it)
    assert (await console.browser.get(record)).status_code == 200


async def test_lists_and_records_link_to_the_run(console: ConsoleService) -> None:
    await call(console, "list_available_tools", "r/1 ?&ü")
    await call(console, "list_available_tools", "other")
    listed = await console.browser.open(CALLS, run_id="r/1 ?&ü")
    assert "other" not in listed.text
    (link,) = {it for it in listed.links if it.startswith(RUN)}
    shown = await console.browser.open(link)
    assert "Calls in order" in shown.text
    record = await console.browser.open(next(it for it in listed.links if "?at=" in it))
    assert link in record.links
    assert "Call of the run1" in record.text
    records = next(it for it in shown.links if it.startswith(f"{CALLS}?") and "run_id" in it)
    assert dict(parse_qsl(urlsplit(records).query))["run_id"] == "r/1 ?&ü"


async def test_the_same_id_of_several_callers_is_a_choice(console: ConsoleService) -> None:
    await call(console, "list_available_tools", "r1")
    await call(console, "read_doc_metadata", "r1", "bob", doc_id="doc_1")
    await call(console, "list_documents", "r1", tenant="tenant_2")
    page = await console.browser.open(RUN, run_id="r1")
    links = [it for it in page.links if it.startswith(f"{RUN}?")]
    assert len(links) == 3
    tools = ("list_available_tools", "read_doc_metadata", "list_documents")
    found = [(await console.browser.open(it)).text for it in links]
    assert [[tool in text for tool in tools].count(True) for text in found] == [1, 1, 1]
    assert len({*found}) == 3


async def test_an_unknown_run_names_what_to_check(console: ConsoleService) -> None:
    response = await console.browser.get(f"{RUN}?run_id=none")
    assert response.status_code == 404
    assert "check the other replicas" in response.text
    assert "MCP_PROXY_AUDIT" in response.text
    form = await console.browser.open(RUN)
    assert "Find a run" in form.text


async def test_a_run_is_exported_as_json(console: ConsoleService) -> None:
    await call(console, "list_available_tools", "r1")
    page = await console.browser.open(RUN, run_id="r1")
    response = await console.browser.get(next(it for it in page.links if "format=json" in it))
    assert "attachment" in response.headers["content-disposition"]
    assert json.loads(response.text)["calls"][0]["name"] == "list_available_tools"


async def test_a_long_run_has_pages(console: ConsoleService) -> None:
    for number in range(45):
        await call(console, "read_doc_metadata", "r1", doc_id="doc_1", start_section=number)
    page = await console.browser.open(RUN, run_id="r1")
    assert "1–40 of 45" in page.text
    later = await console.browser.open(next(it for it in page.links if "first=40" in it))
    assert "41–45 of 45" in later.text


async def test_operators_of_a_tenant_see_its_runs_only() -> None:
    token = file_token(tenant="tenant_2", may=[OperatorRight.AUDIT])
    own = file_token(tenant="tenant_1", user="ann")
    async with running_console(**token_settings()) as console:
        body = {"tool_name": "list_available_tools", "run": {"id": "r1"}}
        headers = {"Authorization": f"Bearer {own}"}
        await console.service.http.post(EXECUTE, json=body, headers=headers)
        browser = console.new_browser()
        await browser.sign_in(token)
        response = await browser.get(f"{RUN}?run_id=r1&tenant_id=tenant_1")
        assert response.status_code == 404
