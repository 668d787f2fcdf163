"""Past calls: permissions, filters, exports, and the page of one call."""

import csv
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

import httpx
import pytest

from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.audit import CHECK_OF_CODE
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.console_browser import ADMIN, ConsoleService, Html, running_console
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import ACTIVE, EXECUTE, Service
from tests.support.tables import named_row
from tests.support.tokens import TOKENS_FILE, bearer, file_token, token_settings

CALLS, TOKEN = "/console/calls", "/console/tokens/revoke"
AUDIT = "/internal/mcp/audit"
MARKUP = '<img src=x onerror="alert(1)">'
READER = Config(agents=[make_agent("reader", exclude=["read_doc_pages"])])


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console(config=READER, require_agent=False) as started:
        yield started


async def call(
    service: Service, tool: str = "read_doc_metadata", doc_id: str = "doc_1", **more: object
) -> None:
    tenant_id = str(more.pop("tenant_id", "tenant_1"))
    body = {
        "tool_name": tool,
        "arguments": {"doc_id": doc_id},
        "user": {"user_id": "ann", "tenant_id": tenant_id},
        **more,
    }
    await service.http.post(EXECUTE, json=body)


def rows(page: Html) -> int:
    return sum(tag == "tr" for tag, _ in page.tags) - sum(tag == "thead" for tag, _ in page.tags)


def record_links(page: Html) -> list[str]:
    return [link for link in page.links if re.match(rf"{CALLS}/\d+\?at=", link)]


async def test_only_calls_are_listed_newest_first(console: ConsoleService) -> None:
    await call(console.service)
    await call(console.service, doc_id="none", tenant_id="tenant_2")
    page = await console.browser.open(CALLS)
    assert rows(page) == 2
    assert page.text.index("read_doc_metadata DOCUMENT_NOT_FOUND tenant_2") < page.text.index(
        "read_doc_metadata OK tenant_1 ann"
    )
    everything = await console.browser.open(CALLS, event="all")
    assert "Operator request GET /internal/mcp/audit" in everything.text
    assert "Console sign-in" in everything.text


async def test_calls_can_be_filtered(console: ConsoleService) -> None:
    await call(console.service)
    await call(console.service, doc_id="none", tenant_id="tenant_2")
    for query, count in [
        ({"code": "failed"}, 1),
        ({"code": "OK"}, 1),
        ({"tenant_id": "tenant_2"}, 1),
        ({"tenant_id": "tenant_3"}, 0),
        ({"tool": "read_doc_metadata", "user_id": "ann"}, 2),
        ({"doc_id": "none"}, 1),
        ({"since": "2000-01-01T00:00"}, 2),
        ({"until": "2000-01-01T00:00Z"}, 0),
        ({"since": "2000-01-01T02:00+02:00"}, 2),
        ({"tool": "metadata"}, 0),
        ({"event": "deeds"}, 3),
        ({"event": "tool.call"}, 2),
        ({"event": "console.signed_in"}, 1),
        ({"event": "all", "code": "failed"}, 1),
    ]:
        with named_row(query, count):
            page = await console.browser.open(CALLS, **query)
            assert rows(page) == count
            assert ("No matching calls" in page.text) == (count == 0)
            fields = page.form(CALLS).fields
            assert all(
                fields[name] == value for name, value in query.items() if name == "tenant_id"
            )


async def test_an_invalid_filter_is_explained_next_to_its_field(console: ConsoleService) -> None:
    for query, problem in [
        ("since=yesterday", "Enter a UTC time such as 2026-11-26T14:30"),
        ("until=0001-01-01T00:00%2B09:00", "Enter a UTC time such as 2026-11-26T14:30"),
        (f"tenant_id={quote(' x' * 300)}", "String should have at most 256 characters"),
    ]:
        with named_row(query, problem):
            response = await console.browser.get(f"{CALLS}?{query}")
            assert (response.status_code, problem in Html(response.text).text) == (422, True)
            assert 'aria-invalid="true"' in response.text


async def test_a_partial_name_finds_nothing_and_the_page_explains_it(
    console: ConsoleService,
) -> None:
    await call(console.service)
    page = await console.browser.open(CALLS, tool="metadata")
    assert "Partial names do not match" in page.text
    assert "Partial names do not match" not in (await console.browser.open(CALLS, agent="x")).text
    live = await console.browser.open(CALLS, live="1")
    assert "Full name, such as weather:radar" in live.text


async def test_operator_actions_are_found_among_console_views(
    console: ConsoleService,
) -> None:
    await console.browser.open(CALLS)
    await console.service.http.put(ACTIVE, json={"preset_id": "work"}, headers=bearer(ADMIN))
    page = await console.browser.open(CALLS, event="deeds")
    assert "PUT /internal/mcp/presets/active" in page.text
    assert "GET /internal/mcp/audit" not in page.text


async def test_requests_without_a_valid_token_are_listed_separately() -> None:
    async with running_console(**token_settings()) as console:
        for _ in range(3):
            await console.service.http.post(EXECUTE, content=b"{", headers=bearer("none"))
        assert rows(await console.browser.open(CALLS, event="request.refused")) == 0
        page = await console.browser.open(CALLS, event="unauthenticated")
        assert rows(page) == 3
        one = await console.browser.open(record_links(page)[0])
        assert f"POST {EXECUTE}" in one.text


@pytest.mark.parametrize("code", ["UNAUTHENTICATED", "INVALID_REQUEST", "NOT_FOUND"])
async def test_a_code_of_a_request_without_a_call_finds_it(code: str) -> None:
    known = bearer(file_token())
    async with running_console(**token_settings()) as console:
        http, browser = console.service.http, console.browser
        for number in range(3):
            await http.post(EXECUTE, content=b"{", headers=bearer("none"))
            await http.post(EXECUTE, content=b"{", headers={**known, "X-Trace-ID": f"t{number}"})
            await http.get("/internal/none", headers=known)
        page = await browser.open(CALLS, code=code)
        assert rows(page) == 3
        assert "Includes requests that ended before they became calls" in page.text
        assert {f"{CALLS}/export?code={code}&format=csv"} <= {*page.links}
        other = await browser.open(CALLS, code=code, event="tool.call")
        assert rows(other) == 0
        of_tenant = await browser.open(CALLS, code=code, tenant_id="tenant_1")
        assert rows(of_tenant) == (0 if code == "UNAUTHENTICATED" else 3)


async def test_requests_without_calls_are_paged() -> None:
    known = bearer(file_token())
    async with running_console(**token_settings()) as console:
        for _ in range(42):
            await console.service.http.get("/internal/mcp/audit", headers=known)
        first = await console.browser.open(CALLS, code="FORBIDDEN")
        (older,) = [link for link in first.links if "cursor=" in link]
        second = await console.browser.open(older)
        assert (rows(first), rows(second)) == (40, 2)
        found = [*record_links(first), *record_links(second)]
        times = [dict(parse_qsl(link.partition("?")[2]))["at"] for link in found]
        assert times == sorted({*times}, reverse=True)


async def test_the_result_filter_has_groups(console: ConsoleService) -> None:
    page = await console.browser.open(CALLS)
    groups = [str(it["label"]) for tag, it in page.tags if tag == "optgroup"]
    assert "Budget used up" in groups
    after = page.tags[[it.get("name") for _, it in page.tags].index("code") :]
    options = [it.get("value") for tag, it in after if tag == "option"]
    assert options[:3] == ["", "failed", "OK"]
    for code in CHECK_OF_CODE:
        assert code in page.text


FORMULA_STARTS = "=+-@\uff1d\uff0b\uff0d\uff20"
"""The last four are broader forms of the others."""


async def exported(console: ConsoleService, **query: str) -> httpx.Response:
    return await console.browser.get(f"{CALLS}/export?{urlencode(query)}")


async def test_calls_can_be_exported_as_csv_and_json(console: ConsoleService) -> None:
    await call(console.service)
    await call(console.service, doc_id="none", tenant_id="tenant_2")
    table = await exported(console, format="csv", tenant_id="tenant_2")
    (line,) = csv.DictReader(StringIO(table.text))
    shown = {key: line[key] for key in ("code", "tenant_id", "user_id", "name", "doc_id")}
    assert shown == {
        "code": "DOCUMENT_NOT_FOUND",
        "tenant_id": "tenant_2",
        "user_id": "ann",
        "name": "read_doc_metadata",
        "doc_id": "none",
    }
    assert table.headers["content-disposition"] == 'attachment; filename="calls.csv"'
    whole = (await exported(console, format="json", event="all")).json()
    names = [record["event"] for record in whole]
    assert names.count("tool.call") == 2
    assert "console.signed_in" in names
    assert (await exported(console, format="json", tenant_id="none")).json() == []


async def test_exported_cells_cannot_be_formulas(console: ConsoleService) -> None:
    for number, start in enumerate(FORMULA_STARTS):
        with named_row(start):
            formula = f'{start}HYPERLINK("http://evil.example","{number}")'
            await call(console.service, formula, tenant_id=f"{start}1+1", doc_id=f"{start}cmd")
            text = (await exported(console, format="csv", event="all")).text
            cells = [cell for line in csv.reader(StringIO(text)) for cell in line]
            assert any(formula.strip() in cell for cell in cells)
            assert [
                cell for cell in cells if cell.startswith((*FORMULA_STARTS, "\t", "\r", "\n"))
            ] == []


async def test_an_export_escapes_hidden_characters(console: ConsoleService) -> None:
    for format_ in ["csv", "json"]:
        for planted in ["a\u202eb", "a\u200bb", "a\x9b31mb", "a\x85=1+1"]:
            with named_row(format_, planted):
                await call(console.service, f"tool{planted}", tenant_id="tenant_1", doc_id=planted)
                text = (await exported(console, format=format_, event="all")).text
                assert planted.encode("unicode_escape").decode() in text.replace("\\u00", "\\x")
                assert "".join(text.split()).isprintable()
                assert planted not in text


async def test_a_long_export_has_every_record_once(console: ConsoleService) -> None:
    for number in range(45):
        await call(console.service, trace_id=f"t-{number}")
    lines = (await exported(console, format="csv")).text.splitlines()
    assert len(lines) == len({*lines}) == 46


async def test_an_invalid_export_is_refused(console: ConsoleService) -> None:
    for query in [{"format": "xml"}, {"format": "csv", "since": "yesterday"}, {}]:
        with named_row(query):
            assert (await exported(console, **query)).status_code == 422


async def test_a_call_links_to_related_pages() -> None:
    async with running_raw(only=("error",)) as server:
        config = Config(
            servers={"s": server.entry},
            presets=[make_preset("work", tools=[("s", "error")])],
            agents=[make_agent("reader")],
            more={"defaultPresetId": "work"},
        )
        async with running_console(config=config, require_agent=False) as console:
            await call(console.service, "s:error", agent="reader", trace_id="t-1")
            await call(console.service, trace_id="t-2")
            page = await console.browser.open(f"{CALLS}/trace", trace_id="t-1")
            own = await console.browser.open(f"{CALLS}/trace", trace_id="t-2")
    assert {
        "/console/servers/s",
        f"{CALLS}?tenant_id=tenant_1",
        f"{CALLS}?tenant_id=tenant_1&user_id=ann",
        f"{CALLS}?agent=reader",
        f"{CALLS}?tool=s%3Aerror",
        f"{CALLS}?trace_id=t-1&event=all",
    } <= {*page.links}
    assert "TOOL_FAILED" in page.text
    assert "The server’s message is not recorded. Try the tool with the same arguments" in page.text
    assert f"{CALLS}?tenant_id=tenant_1&doc_id=doc_1" in own.links
    assert "What the server said" not in own.text


async def test_a_token_link_is_shown_only_with_the_right(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.jsonl"
    auditor = Principal(tenant_id=None, rights=frozenset({OperatorRight.AUDIT}))
    audit, _ = add_token(tokens, auditor)
    token, entry = add_token(tokens, Principal(tenant_id="tenant_1", user_id="ann"))
    async with running_console(auth_mode="token", tokens_file=str(tokens)) as console:
        body = {"tool_name": "read_doc_metadata", "arguments": {"doc_id": "doc_1"}}
        await console.service.http.post(EXECUTE, json=body, headers=bearer(token))
        (link,) = record_links(await console.browser.open(CALLS))
        of_token = f"/console/tokens/revoke?token_id={entry.id}"
        page = await console.browser.open(link)
        assert of_token in page.links
        assert entry.id in (await console.browser.open(of_token)).text
        (use,) = record_links(await console.browser.open(CALLS, event="operator.right_used"))[-1:]
        shown = await console.browser.open(use)
        assert f"{CALLS}?token_id=admin_token" in shown.links
        reader = console.new_browser()
        await reader.sign_in(audit)
        links = (await reader.open(link)).links
        assert (of_token in links, f"{CALLS}?token_id={entry.id}" in links) == (False, True)


async def test_without_calls_the_page_explains_how_to_make_one(console: ConsoleService) -> None:
    page = await console.browser.open(CALLS)
    assert "No calls yet" in page.text
    assert "/console/try" in page.links


async def test_many_calls_are_paged(console: ConsoleService) -> None:
    for number in range(42):
        await call(console.service, trace_id=f"t-{number}")
    first = await console.browser.open(CALLS)
    (older,) = [link for link in first.links if "cursor=" in link]
    second = await console.browser.open(older)
    assert (rows(first), rows(second)) == (40, 2)
    assert "No older records" in second.text
    assert len({*record_links(first), *record_links(second)}) == 42


async def test_slow_calls_can_be_found_by_duration(console: ConsoleService) -> None:
    await call(console.service)
    assert rows(await console.browser.open(CALLS, min_ms="0.000001")) == 1
    assert rows(await console.browser.open(CALLS, min_ms="3600000")) == 0
    for text in ("soon", "-1", "inf", "nan"):
        response = await console.browser.get(f"{CALLS}?min_ms={text}")
        assert (response.status_code, "number of milliseconds" in response.text) == (422, True)


async def test_the_search_for_rare_calls_extends_in_steps(
    console: ConsoleService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tools_proxy.console.pages.call_search.MANY", 1)
    await call(console.service)
    for _ in range(5):
        await console.browser.open(CALLS, event="all")
    page = await console.browser.open(CALLS)
    while not rows(page):
        assert "Search older records" in page.text
        (older,) = [link for link in page.links if "cursor=" in link]
        page = await console.browser.open(older)
    assert "read_doc_metadata OK" in page.text


async def test_a_call_shows_the_deciding_check_and_the_location_of_its_rule(
    console: ConsoleService,
) -> None:
    await call(console.service, "read_doc_pages", agent="reader", trace_id="t/1&x")
    (link,) = record_links(await console.browser.open(CALLS))
    page = await console.browser.open(link)
    assert "Ended by the check visibility: whether the caller has access to the tool" in page.text
    assert 'agents.json at $.agents[?@.name=="reader"].exclude_components[0]' in page.text
    assert "agent: passed" in page.text
    assert "visibility: decided" in page.text
    assert "budget: not reached" in page.text
    query = "tenant_id=tenant_1&user_id=ann&agent=reader&tool=read_doc_pages"
    assert f"/console/try?{query}" in page.links
    assert f"/console/visibility/why?{query}" in page.links
    assert "traces" not in str(page.links)
    by_trace = await console.browser.open(f"{CALLS}/trace", trace_id="t/1&x")
    assert "Ended by the check visibility" in by_trace.text
    assert (
        "Ended by the check visibility"
        in (await console.browser.open(f"{CALLS}/{quote('t/1&x', safe='')}")).text
    )


async def test_an_answered_call_shows_sizes_budgets_and_trace() -> None:
    settings = {
        "rate_limit_tenant_calls": 9,
        "console_trace_url": "https://traces.example/t?id={trace_id}",
    }
    async with running_console(**settings) as console:
        await call(console.service, trace_id="a&b#c")
        await call(console.service, trace_id="a&b#c", doc_id="none")
        page = await console.browser.open(f"{CALLS}/trace", trace_id="a&b#c")
    assert "All checks passed" in page.text
    assert "Left in tenant_calls 8 calls" in page.text
    assert "https://traces.example/t?id=a%26b%23c" in page.links
    limits = "tenant_id=tenant_1&user_id=ann&tool=read_doc_metadata&doc_id=doc_1"
    assert f"/console/limits?{limits}" in page.links
    assert "Same trace" in page.text
    assert "DOCUMENT_NOT_FOUND" in page.text


async def test_unrecorded_values_are_omitted(console: ConsoleService) -> None:
    for path in ["99999", "9" * 40, "nothing", "trace", "trace?trace_id=none", "..%2f", "0"]:
        with named_row(path):
            response = await console.browser.get(f"{CALLS}/{path}")
            assert (response.status_code, "Record not found" in response.text) == (404, True)


async def test_the_address_of_a_call_never_shows_another_one() -> None:
    traces = {"console_trace_url": "https://traces.example/{trace_id}"}
    async with running_console() as console:
        await call(console.service, trace_id="t-1")
        (link,) = record_links(await console.browser.open(CALLS))
    async with running_console(**traces) as console:
        for number in range(2, 9):
            await call(console.service, doc_id="none", trace_id=f"t-{number}")
        response = await console.browser.get(link)
        page = Html(response.text)
        assert (response.status_code, "DOCUMENT_NOT_FOUND" in page.text) == (404, False)
        assert "does not have this record" in page.text
        assert "https://traces.example/t-1" in page.links
        await call(console.service, trace_id="t-1")
        assert "possibly of another call" in (await console.browser.open(link)).text


async def test_a_number_without_its_time_is_not_the_address_of_a_call(
    console: ConsoleService,
) -> None:
    await call(console.service)
    (link,) = record_links(await console.browser.open(CALLS))
    path, _, query = link.partition("?")
    assert (await console.browser.get(path)).status_code == 404
    time = dict(parse_qsl(query))["at"]
    assert "read_doc_metadata" in (await console.browser.open(path, at=time)).text


async def test_values_from_callers_are_shown_as_text(console: ConsoleService) -> None:
    await call(console.service, MARKUP, trace_id=MARKUP.replace(" ", "_"), agent="reader")
    listed = await console.browser.open(CALLS)
    assert MARKUP in listed.text
    one = await console.browser.open(f"{CALLS}/trace", trace_id=MARKUP.replace(" ", "_"))
    filtered = await console.browser.open(CALLS, tool=MARKUP, agent=MARKUP, code=MARKUP)
    for page in (listed, one, filtered):
        images = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
        assert [it for it in images if not str(it).startswith("/console/assets/")] == []
        assert not any(name.startswith("on") for _, it in page.tags for name in it)


async def test_a_right_for_one_tenant_shows_only_that_tenant(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.jsonl"
    rights = frozenset({OperatorRight.AUDIT})
    token, _ = add_token(tokens, Principal(tenant_id="tenant_1", rights=rights))
    other, _ = add_token(tokens, Principal(tenant_id="tenant_2", user_id="zoe"))
    async with running_console(auth_mode="token", tokens_file=str(tokens)) as console:
        for doc_id in ("doc_1", "doc_2"):
            await console.service.http.post(
                EXECUTE,
                json={"tool_name": "read_doc_metadata", "arguments": {"doc_id": doc_id}},
                headers={"authorization": f"Bearer {other}"},
            )
        browser = console.new_browser()
        await browser.sign_in(token)
        for query in ({}, {"tenant_id": "tenant_2"}, {"event": "all"}):
            page = await browser.open(CALLS, **query)
            assert "zoe" not in page.text
            assert "tenant_id" not in page.form(CALLS).fields
        export = await browser.get(f"{CALLS}/export?format=csv&tenant_id=tenant_2&event=all")
        assert (export.status_code, "zoe" in export.text) == (200, False)
        seen = await console.browser.open(CALLS)
        assert len(record_links(seen)) == 2
        for link in record_links(seen):
            assert "zoe" in (await console.browser.open(link)).text
            assert (await browser.get(link)).status_code == 404
        assert "Try it" not in seen.text


async def test_the_page_needs_the_right(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.jsonl"
    rights = frozenset({OperatorRight.DOCUMENTS})
    token, _ = add_token(tokens, Principal(tenant_id="tenant_1", rights=rights))
    async with running_console(auth_mode="token", tokens_file=str(tokens)) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        for path in (
            CALLS,
            f"{CALLS}/1",
            f"{CALLS}/trace?trace_id=t",
            f"{CALLS}/export?format=csv",
        ):
            assert (await browser.get(path)).status_code == 403


@pytest.mark.parametrize("tenant", [None, "acme"])
async def test_calls_with_an_expired_token_are_found(tenant: str | None) -> None:
    operator = file_token(tenant=tenant, may=[OperatorRight.AUDIT])
    over = datetime(2020, 1, 1, tzinfo=UTC)
    token, entry = add_token(TOKENS_FILE, Principal(tenant_id="acme"), expires=over)
    async with running_console(**token_settings()) as console:
        await console.service.http.post(EXECUTE, content=b"{", headers=bearer(token))
        await console.service.http.post(EXECUTE, content=b"{", headers=bearer("none"))
        browser = console.new_browser()
        await browser.sign_in(operator)
        of_all = 1 if tenant else 2
        for query, found in (
            ({"code": "UNAUTHENTICATED"}, of_all),
            ({"code": "UNAUTHENTICATED", "tenant_id": "acme"}, 1),
            ({"code": "UNAUTHENTICATED", "token_id": entry.id}, 1),
            ({"event": "unauthenticated"}, of_all),
            ({"event": "unauthenticated", "token_id": entry.id}, 1),
        ):
            assert rows(await browser.open(CALLS, **query)) == found, query
        query = {"code": "UNAUTHENTICATED"} | ({"tenant_id": tenant} if tenant else {})
        answer = await console.service.http.get(AUDIT, params=query, headers=bearer(operator))
        assert len(answer.json()["records"]) == of_all
        apart = {**query, "unauthenticated": "false"}
        answer = await console.service.http.get(AUDIT, params=apart, headers=bearer(operator))
        assert answer.json()["records"] == []


async def test_a_call_links_to_its_token_if_the_right_allows_it() -> None:
    rights = [OperatorRight.AUDIT, OperatorRight.TOKENS, OperatorRight.RUN]
    of_all, of_tenant = file_token(tenant=None, may=rights), file_token(tenant="acme", may=rights)
    async with running_console(**token_settings()) as console:
        http = console.service.http
        for token in (of_all, of_tenant):
            await http.get(AUDIT, params={"tenant_id": "acme"}, headers=bearer(token))
        for token, links in ((of_all, 2), (of_tenant, 1)):
            browser = console.new_browser()
            await browser.sign_in(token)
            listed = await browser.open(CALLS, event="operator.right_used", tenant_id="acme")
            used = [await browser.open(it) for it in record_links(listed)]
            used = [it for it in used if f"GET {AUDIT}" in it.text]
            found = {it for page in used for it in page.links if it.startswith(TOKEN)}
            assert len(found) == links
            for link in found:
                assert (await browser.get(link)).status_code == 200
