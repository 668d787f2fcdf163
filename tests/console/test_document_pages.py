"""The document pages: list, text, readers, removal, and permissions."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.domain.document import DocumentSource, ImportWarning
from mcp_tools_proxy.domain.identity import OperatorRight
from tests.console.document_pages import (
    LIST,
    MANAGE,
    READ,
    SEARCH,
    UPLOAD,
    VERIFY,
    facts,
    page_of,
    put,
)
from tests.support.builders import make_document
from tests.support.console_browser import (
    ConsoleBrowser,
    ConsoleService,
    Html,
    running_console,
)
from tests.support.tables import named_row
from tests.support.tokens import file_token, token_settings

MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console() as started:
        yield started


@asynccontextmanager
async def operated_by(
    *may: OperatorRight, tenant: str | None = None
) -> AsyncIterator[tuple[ConsoleService, ConsoleBrowser]]:
    """Start a service and sign in with a token that has rights, in addition to the admin token."""
    token = file_token(tenant=tenant, may=may)
    async with running_console(**token_settings()) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        yield console, browser


async def test_the_list_matches_the_api(console: ConsoleService) -> None:
    version = await put(
        console, title="Handbook", tag=["vpn", "new"], language="en", reader_user="ann"
    )
    page = await console.browser.open(LIST, tenant_id="acme")
    for shown in ("Handbook", "note", "vpn", "new", "en", "user ann", version[:8], "1 2 "):
        assert shown in page.text
    assert page_of(READ) in page.links


async def test_a_tenant_without_documents_sees_how_to_add_one(console: ConsoleService) -> None:
    page = await console.browser.open(LIST, tenant_id="nobody")
    assert "No documents yet" in page.text
    assert f"{UPLOAD}?tenant_id=nobody" in page.links


async def test_a_long_list_is_paged(console: ConsoleService) -> None:
    for name in (f"d{number:03}" for number in range(120)):
        document = {"doc_id": name, "tenant_id": "acme", "title": name, "pages": ["text"]}
        await put(console, name, json.dumps(document).encode(), kind="application/json")
    seen: list[str] = []
    path: str | None = f"{LIST}?tenant_id=acme"
    for _ in range(3):
        assert path is not None
        response = await console.browser.get(path)
        assert len(response.content) < 60_000
        page = Html(response.text)
        seen += [link.rpartition("=")[2] for link in page.links if link.startswith(READ)]
        path = next((a["href"] for tag, a in page.tags if a.get("rel") == "next"), None)
    assert seen == [f"d{number:03}" for number in range(120)]
    assert path is None


async def test_an_invalid_file_is_named() -> None:
    folder = Path("documents") / "acme"
    folder.mkdir(parents=True)
    (folder / "broken<b>.json").write_text("{", encoding="utf-8")
    async with running_console() as console:
        page = await console.browser.open(LIST)
    assert "1 file is invalid" in page.text
    assert "broken<b>.json" in page.text


async def test_a_page_is_shown_with_its_sections(console: ConsoleService) -> None:
    await put(console)
    page = await console.browser.open(page_of(READ))
    assert "Page 1 of 1" in page.text
    assert "The tunnel ends after ten minutes." in page.text
    (section,) = [link for link in page.links if "section=on-linux" in link]
    read = await console.browser.open(section)
    assert "Run the client." in read.text
    assert "ten minutes" not in read.text


async def test_pages_link_to_the_previous_and_next_page(console: ConsoleService) -> None:
    document = {"doc_id": "three", "tenant_id": "acme", "title": "Three", "pages": list("abc")}
    await put(console, "three", json.dumps(document).encode(), kind="application/json")
    relations = {}
    for number in ("1", "2", "3", "99", "x"):
        page = await console.browser.open(page_of(READ, "three", page=number))
        shown = {a["rel"] for _, a in page.tags if a.get("rel") in ("prev", "next")}
        heading = page.text.partition("Page ")[2][:1]
        relations[number] = (heading, shown)
    assert relations == {
        "1": ("1", {"next"}),
        "2": ("2", {"prev", "next"}),
        "3": ("3", {"prev"}),
        "99": ("3", {"prev"}),
        "x": ("1", {"next"}),
    }


async def test_a_long_text_is_split_into_linked_parts(console: ConsoleService) -> None:
    text = "".join(f"[{number:05}]" for number in range(4_000))
    document = {"doc_id": "long", "tenant_id": "acme", "title": "Long", "pages": [text]}
    await put(console, "long", json.dumps(document).encode(), kind="application/json")
    response = await console.browser.get(page_of(READ, "long"))
    assert len(response.content) < 60_000
    assert "Part 1 of 4" in Html(response.text).text
    last = await console.browser.open(page_of(READ, "long", part=4))
    assert "[03999]" in last.text
    marked = await console.browser.open(page_of(READ, "long", page=1, mark="20000-20007"))
    assert "Part 3 of 4" in marked.text


async def test_a_position_in_another_version_is_reported_and_not_marked(
    console: ConsoleService,
) -> None:
    version = await put(console)
    good = await console.browser.get(page_of(READ, page=1, mark="0-5", version=version))
    other = await console.browser.get(page_of(READ, page=1, mark="0-5", version="0" * 64))
    assert "<mark" in good.text
    assert "<mark" not in other.text
    assert "citation refers to version" in other.text


async def test_a_document_with_many_sections_shows_the_nearest_ones(
    console: ConsoleService,
) -> None:
    sections = [
        {"section_id": f"s{n}", "title": f"Title {n}", "page_start": 1, "page_end": 1}
        for n in range(500)
    ]
    document = {"doc_id": "many", "tenant_id": "acme", "title": "Many", "pages": ["text"]}
    content = json.dumps(document | {"sections": sections}).encode()
    await put(console, "many", content, kind="application/json")
    response = await console.browser.get(page_of(READ, "many", section="s130"))
    page = Html(response.text)
    assert len(response.content) < 60_000
    assert "Title 130" in page.text
    assert "Title 60 " not in page.text
    assert "Earlier sections" in page.text
    assert "Later sections" in page.text


async def test_a_missing_document_is_reported(console: ConsoleService) -> None:
    response = await console.browser.get(page_of(READ, "no-such"))
    assert response.status_code == 404
    assert "has no document" in response.text
    assert (await console.browser.get(READ)).status_code == 422
    await put(console)
    assert (await console.browser.get(page_of(READ, section="no-such"))).status_code == 422


async def test_document_content_is_never_markup(console: ConsoleService) -> None:
    document = {
        "doc_id": MARKUP,
        "tenant_id": MARKUP,
        "title": MARKUP,
        "tags": [MARKUP],
        "pages": [MARKUP],
        "sections": [{"section_id": MARKUP, "title": MARKUP, "page_start": 1, "page_end": 1}],
        "readers": {"users": [MARKUP], "roles": [MARKUP]},
    }
    content = json.dumps(document).encode()
    await put(console, MARKUP, content, kind="application/json", tenant_id=MARKUP)
    of_it = {"tenant_id": MARKUP}
    addresses = [LIST, *(page_of(it, MARKUP, **of_it) for it in (READ, SEARCH, VERIFY, MANAGE))]
    for address in (*addresses, page_of(READ, MARKUP, **of_it, section=MARKUP)):
        page = await console.browser.open(address)
        assert "<script>alert(1)</script>" in page.text
        assert not [it for it in page.tags if it[0] == "img" and it[1].get("src") == "x"]
        assert not [it for it in page.tags if any(name.startswith("on") for name in it[1])]


async def test_readers_can_be_set_and_reset(console: ConsoleService) -> None:
    await put(console)
    address = page_of(MANAGE)
    some = {"readers": "some", "users": "ann\nbob", "roles": "audit, law"}
    done = await console.browser.press(MANAGE, some, on=address)
    assert "Readers saved" in done.text
    readers = (await facts(console))["note"]["readers"]  # type: ignore[index]
    assert readers == {"users": ["ann", "bob"], "roles": ["audit", "law"]}
    await console.browser.press(MANAGE, {"readers": "nobody"}, on=address)
    assert (await facts(console))["note"]["readers"] == {"users": [], "roles": []}  # type: ignore[index]
    await console.browser.press(MANAGE, {"readers": "all"}, on=address)
    assert "readers" not in (await facts(console))["note"]  # type: ignore[operator]


async def test_readers_without_a_user_or_role_are_refused(console: ConsoleService) -> None:
    await put(console)
    refused = await console.browser.press(MANAGE, {"readers": "some"}, on=page_of(MANAGE))
    assert refused.status_code == 422
    assert "Enter users or roles" in refused.text
    assert "readers" not in (await facts(console))["note"]  # type: ignore[operator]


async def test_changed_readers_are_not_overwritten(
    console: ConsoleService,
) -> None:
    await put(console)
    page = await console.browser.open(page_of(MANAGE))
    fields = {**page.form(MANAGE).fields, "readers": "nobody"}
    await console.browser.press(MANAGE, {"readers": "some", "users": "ann"}, on=page_of(MANAGE))
    refused = await console.browser.post(MANAGE, fields)
    assert refused.status_code == 412
    assert "has changed since you opened it" in Html(refused.text).text
    assert (await facts(console))["note"]["readers"]["users"] == ["ann"]  # type: ignore[index]


async def test_own_fields_and_expiry_are_shown_and_saved(console: ConsoleService) -> None:
    own: dict[str, Any] = {"metadata": ["team=hr, it", "year=2027", "by=ann", "by=bob"]}
    await put(
        console, tag=["a, b", "c"], date="2027-01-31", expires_at="2099-01-31T12:00:00Z", **own
    )
    page = await console.browser.open(page_of(MANAGE))
    for shown in ("2027-01-31", "hr, it", "ann, bob", "2099-01-31 12:00 UTC", "team=hr, it"):
        assert shown in page.text
    (form,) = [it for it in page.forms if it.fields.get("do") == "facts"]
    assert form.fields["metadata"] == "team=hr, it\nyear=2027\nby=ann\nby=bob"
    new = {"tags": "a, b\r\nnew", "metadata": "team=it\r\nopen=true", "date": "", "expires": ""}
    fields = {**form.fields, **new}
    refused = await console.browser.post(MANAGE, {**fields, "expires": "soon"})
    assert (refused.status_code, "Expires: should be a date, a time" in refused.text) == (422, True)
    for wrong in ("=x", "team"):
        refused = await console.browser.post(MANAGE, {**fields, "metadata": wrong})
        assert refused.status_code == 422
        assert "Own fields: should be KEY=VALUE" in refused.text
    done = await console.browser.post(MANAGE, fields)
    assert done.status_code == 303
    found: Any = (await facts(console))["note"]
    assert (found["tags"], found["metadata"]) == (["a, b", "new"], {"team": "it", "open": True})
    assert not {"date", "expires_at"} & set(found)
    again = await console.browser.post(MANAGE, fields)
    assert (again.status_code, "has changed since you opened it" in again.text) == (412, True)


async def test_warnings_and_source_are_shown_with_advice(console: ConsoleService) -> None:
    document = make_document(tenant_id="acme", doc_id="note")
    document = replace(
        document,
        warnings=(ImportWarning("pages_without_text", "page 2 of 3 has no text"),),
        source=DocumentSource("share", "a/b.pdf", "0", "1"),
    )
    write_document(Path("documents"), document, replace=True)
    await console.service.gateway.documents.refresh(("acme", "note"))
    page = await console.browser.open(page_of(MANAGE))
    assert "Page 2 of 3 has no text. If they are scanned, set MCP_PROXY_OCR_LANGUAGES" in page.text
    assert "share: a/b.pdf" in page.text


async def test_a_document_is_removed_after_confirmation(console: ConsoleService) -> None:
    await put(console)
    page = await console.browser.open(page_of(MANAGE))
    remove = next(it for it in page.forms if it.fields.get("do") == "remove")
    removed = await console.browser.post(MANAGE, remove.fields)
    assert (removed.status_code, removed.headers["location"]) == (303, f"{LIST}?tenant_id=acme")
    assert "note" not in await facts(console)


async def test_a_version_that_was_not_reviewed_is_not_removed(console: ConsoleService) -> None:
    await put(console)
    page = await console.browser.open(page_of(MANAGE))
    remove = next(it for it in page.forms if it.fields.get("do") == "remove")
    refused = await console.browser.post(MANAGE, {**remove.fields, "version": "0" * 64})
    assert refused.status_code == 412
    assert "note" in await facts(console)


async def test_documents_need_the_right() -> None:
    async with operated_by(OperatorRight.CONFIG, OperatorRight.TOKENS) as (console, browser):
        await put(console)
        assert LIST not in (await browser.open("/console/servers")).links
        for address in (LIST, page_of(READ), page_of(MANAGE)):
            response = await browser.get(address)
            assert response.status_code == 403
            assert "note" not in Html(response.text).text


async def test_a_right_for_one_tenant_shows_and_changes_only_that_tenant() -> None:
    async with operated_by(OperatorRight.DOCUMENTS, tenant="globex") as (console, browser):
        await put(console, title="Of acme")
        await put(console, title="Of globex", tenant_id="globex")
        page = await browser.open(f"{LIST}?tenant_id=acme")
        assert "Of globex" in page.text
        assert "Of acme" not in page.text
        read = await browser.open(page_of(READ))
        assert "Of globex" in read.text
        manage = await browser.open(page_of(MANAGE))
        remove = next(it for it in manage.forms if it.fields.get("do") == "remove")
        await browser.post(MANAGE, {**remove.fields, "tenant_id": "acme"})
        assert "note" in await facts(console)
        assert "note" not in await facts(console, "globex")


async def test_users_without_the_run_right_see_the_required_right() -> None:
    async with operated_by(OperatorRight.DOCUMENTS) as (console, browser):
        await put(console)
        for path in [SEARCH, VERIFY]:
            with named_row(path):
                page = await browser.open(page_of(path))
                assert "also requires the right run" in page.text
                assert not [it for it in page.forms if it.action == path]


async def test_foreign_forms_change_nothing(console: ConsoleService) -> None:
    await put(console)
    page = await console.browser.open(page_of(MANAGE))
    remove = next(it for it in page.forms if it.fields.get("do") == "remove")
    for fields, origin in (
        ({**remove.fields, "csrf": "x"}, "http://localhost"),
        (remove.fields, "http://evil.example"),
    ):
        refused = await console.browser.post(MANAGE, fields, origin=origin)
        assert refused.status_code == 403
    assert "note" in await facts(console)


async def test_a_missing_document_keeps_the_form(console: ConsoleService) -> None:
    await put(console, title="Handbook")
    for path in [READ, MANAGE, SEARCH, VERIFY]:
        with named_row(path):
            for tenant in ("acme", "other"):
                response = await console.browser.get(f"{path}?tenant_id={tenant}&doc_id=handbok")
                page = Html(response.text)
                assert (response.status_code, page.form(READ).fields["doc_id"]) == (404, "handbok")
                assert 'no document "handbok"' in page.text
                assert ("Handbook" in page.text) == (tenant == "acme")


async def test_an_address_without_a_document_shows_the_list(console: ConsoleService) -> None:
    await put(console, title="Handbook")
    for path in [READ, MANAGE]:
        for tenant in ["", "acme"]:
            with named_row(path, tenant):
                response = await console.browser.get(f"{path}?tenant_id={tenant}&doc_id=")
                page = Html(response.text)
                assert (response.status_code, "Enter a document ID" in page.text) == (422, True)
                assert page.form(LIST).fields["tenant_id"] == tenant
                assert page_of(READ) in page.links
