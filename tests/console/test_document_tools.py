"""Pages that run document tools: search, quotes and page images."""

import re
from collections.abc import AsyncIterator
from io import BytesIO

import pytest
from fpdf import FPDF
from PIL import Image

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.console.document_pages import (
    PICTURE,
    READ,
    SEARCH,
    VERIFY,
    page_of,
    put,
)
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent
from tests.support.console_browser import ConsoleService, Html, running_console
from tests.support.tables import named_row
from tests.support.tokens import jwt_settings, signed_token

MANUAL = b"""# Manual

The client renews its certificate every thirty days. Certificates are kept in the store.

## Valves

Turn the valve to 12 bar, and never to 120. <b>Mind</b> the gap.
"""


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console() as started:
        await put(started, "manual", MANUAL)
        yield started


def marked(page: str) -> list[str]:
    return [Html(it.partition("</mark>")[0]).text for it in page.split("<mark")[1:]]


async def test_a_search_in_a_document_shows_the_results_and_marks_the_words(
    console: ConsoleService,
) -> None:
    address = page_of(SEARCH, "manual", query="how does a VPN renew certificates")
    response = await console.browser.get(address)
    page = Html(response.text)
    assert "1 result" in page.text
    assert "Score" in page.text
    assert (
        "2 of 5 words found in this excerpt: renew, certificates; missing: how, does, vpn"
        in page.text
    )
    assert {">renews", ">certificate", ">Certificates"} <= set(marked(response.text))
    (link,) = [it for it in page.links if it.startswith(READ) and "mark=" in it]
    assert "<mark" in (await console.browser.get(link.partition("#")[0])).text


async def test_a_search_over_a_tenant_finds_the_documents_of_its_user(
    console: ConsoleService,
) -> None:
    await put(console, "other", b"# Other\n\nA valve of Ann.\n", reader_user="ann")
    await put(console, "foreign", b"# Foreign\n\nA valve.\n", tenant_id="globex")
    places = {}
    for user in ("bob", "ann"):
        page = await console.browser.open(SEARCH, tenant_id="acme", query="valve", user_id=user)
        places[user] = {
            it for it in ("manual", "other", "foreign") if f"Document {it}" in page.text
        }
    assert places == {"bob": {"manual"}, "ann": {"manual", "other"}}


async def test_a_document_with_readers_is_searched_as_one_of_them(
    console: ConsoleService,
) -> None:
    for name, readers in (("of-ann", {"reader_user": "ann"}), ("of-law", {"reader_role": "law"})):
        await put(console, name, MANUAL, **readers)
        page = await console.browser.open(page_of(SEARCH, name, query="valve"))
        assert "1 result" in page.text


async def test_a_search_without_results_shows_the_searched_words(
    console: ConsoleService,
) -> None:
    page = await console.browser.open(page_of(SEARCH, "manual", query="zebras"))
    assert "Nothing found" in page.text
    assert "zebras" in page.text.partition("Nothing found")[2]
    everywhere = await console.browser.open(SEARCH, tenant_id="acme", query="zebras")
    assert "Nothing found" in everywhere.text


async def test_a_matching_quote_is_shown_with_its_citation(
    console: ConsoleService,
) -> None:
    quote = "never to 120. <b>Mind</b> the gap."
    verified = await console.browser.press(VERIFY, {"quote": quote}, on=page_of(VERIFY, "manual"))
    page = Html(verified.text)
    assert "Found word for word" in page.text
    assert f"“{quote}” (Manual, page 1)" in page.text
    assert '"start_char"' in page.text
    assert f">{quote}" in marked(verified.text)


async def test_the_words_around_a_quote_are_complete(console: ConsoleService) -> None:
    text = "abcdefg " * 50 + "Turn the valve to 12 bar. " + "hijklmn " * 50
    await put(console, "long", text.encode(), kind="text/plain")
    quote = {"quote": "Turn the valve to 12 bar."}
    verified = await console.browser.press(VERIFY, quote, on=page_of(VERIFY, "long"))
    (around,) = re.findall(
        r"…([a-z ]+) Turn the valve to 12 bar. ([a-z ]+)…", Html(verified.text).text
    )
    assert {*around[0].split(), *around[1].split()} == {"abcdefg", "hijklmn"}


async def test_a_changed_quote_is_shown_next_to_the_original_text(
    console: ConsoleService,
) -> None:
    quote = "Turn the valve to 21 bar, and never to 120."
    near = await console.browser.press(VERIFY, {"quote": quote}, on=page_of(VERIFY, "manual"))
    page = Html(near.text)
    assert "Not found word for word. Closest passage:" in page.text
    assert '<del class="removed">21</del>' in near.text
    assert '<ins class="added">12</ins>' in near.text
    again = [it for it in page.forms if "quote" in it.fields][-1]
    verified = await console.browser.post(VERIFY, again.fields)
    assert "Found word for word" in verified.text


async def test_an_unknown_quote_is_reported(console: ConsoleService) -> None:
    quote = "Zebras quietly jump over xylophones."
    none = await console.browser.press(VERIFY, {"quote": quote}, on=page_of(VERIFY, "manual"))
    assert "no similar text in this document" in none.text
    everywhere = await console.browser.press(
        VERIFY, {"quote": quote}, on=f"{VERIFY}?tenant_id=acme"
    )
    assert "no similar text in any document" in everywhere.text


async def test_without_a_document_a_quote_is_checked_in_the_search_results(
    console: ConsoleService,
) -> None:
    quote = "renews its certificate every thirty days"
    found = await console.browser.press(
        VERIFY, {"quote": quote, "tenant_id": "acme"}, on=f"{VERIFY}?tenant_id=acme"
    )
    page = Html(found.text)
    assert "Found word for word" in page.text
    assert "Checked manual" in page.text


async def test_an_invalid_quote_is_reported(console: ConsoleService) -> None:
    for quote in ["", "short", "x" * 2_001]:
        with named_row(quote):
            refused = await console.browser.press(
                VERIFY, {"quote": quote}, on=page_of(VERIFY, "manual")
            )
            assert refused.status_code == 422
            assert 'role="alert"' in refused.text


async def test_a_page_image_is_served_only_as_an_image() -> None:
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    pdf.add_page()
    pdf.cell(text="Turn the valve to 12 bar.")
    async with running_console(documents_keep_originals=True) as console:
        await put(console, "pdf", bytes(pdf.output()), kind="application/pdf", reader_user="ann")
        await put(console)
        page = await console.browser.open(page_of(READ, "pdf", page=1, view="drawn"))
        (source,) = [a["src"] for tag, a in page.tags if tag == "img" and PICTURE in str(a["src"])]
        picture = await console.browser.get(str(source))
        assert picture.status_code == 200
        assert picture.headers["content-type"] in ("image/png", "image/jpeg")
        assert picture.headers["x-content-type-options"] == "nosniff"
        assert Image.open(BytesIO(picture.content)).width > 100
        none = await console.browser.get(page_of(PICTURE, "note", page=1))
        assert none.status_code >= 400
        assert "PAGE_IMAGE_UNAVAILABLE" in none.text


async def test_without_originals_the_page_image_is_an_explained_error(
    console: ConsoleService,
) -> None:
    none = await console.browser.get(page_of(PICTURE, "manual", page=1))
    assert none.status_code >= 400
    assert "text/html" in none.headers["content-type"]


async def test_document_tools_run_as_the_named_agent() -> None:
    config = Config(agents=[make_agent("desk"), make_agent("narrow", exclude=["verify_quote"])])
    async with running_console(config=config) as console:
        await put(console, "manual", MANUAL)
        removed = await console.browser.get(page_of(SEARCH, "manual", query="valve", agent="none"))
        assert (removed.status_code, "AGENT_NOT_FOUND" in Html(removed.text).text) == (422, True)
        assert Html(removed.text).form(SEARCH).fields["query"] == "valve"
        found = await console.browser.open(page_of(SEARCH, "manual", query="valve"))
        (link,) = [it for it in found.links if it.startswith(READ) and "mark=" in it]
        read = await console.browser.open(link.partition("#")[0])
        verify = next(it for it in read.links if it.startswith(VERIFY))
        quote = {"quote": "Turn the valve to 12 bar"}
        verified = await console.browser.press(VERIFY, quote, on=verify)
        assert "Found word for word" in verified.text
        refused = await console.browser.press(VERIFY, {**quote, "agent": "narrow"}, on=verify)
        assert "not permitted for agent" in Html(refused.text).text


async def test_a_user_named_by_a_jwt_searches_as_themselves() -> None:
    may = (OperatorRight.DOCUMENTS, OperatorRight.RUN)
    async with running_console(**jwt_settings()) as console:
        await put(console, "staff", MANUAL, tenant_id="tenant_1", reader_role="staff")
        browser = console.new_browser()
        await browser.sign_in(signed_token(user="ann", roles=("staff",), may=may))
        with capture_logs() as lines:
            for user in ("ann", "bob"):
                await browser.open(SEARCH, query="valve", user_id=user)
    searches = [it for it in lines if it.get("tool") == "search_documents"]
    assert [(it["user_id"], it.get("stand_in", False)) for it in searches] == [
        ("ann", False),
        ("bob", True),
    ]


async def test_a_page_of_another_host_runs_no_tool(console: ConsoleService) -> None:
    cookies = "; ".join(f"{name}={it}" for name, it in console.browser.cookies.items())
    search = page_of(SEARCH, "manual", query="valve")
    shown = {}
    with capture_logs() as lines:
        for site in ("same-site", "cross-site", "same-origin", "none"):
            headers = {"cookie": cookies, "sec-fetch-site": site}
            answer = await console.service.http.get(search, headers=headers)
            shown[site] = "Score" in answer.text
    assert shown == {"same-site": False, "cross-site": False, "same-origin": True, "none": True}
    assert len([it for it in lines if it.get("tool") == "doc_local_search"]) == 2
    headers = {"cookie": cookies, "sec-fetch-site": "same-site"}
    picture = await console.service.http.get(page_of(PICTURE, "manual", page=1), headers=headers)
    assert (picture.status_code, "another site" in picture.text) == (403, True)
