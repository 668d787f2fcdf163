"""Document actions of an operator in a browser."""

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import FilePayload, Page, expect

from tests.system.console.demo_gateway import HANDBOOK, POLICY, TENANT, Demo
from tests.system.console.opened_pages import expect_accessible
from tests.system.console.people import expect_done

DOC = "guide"
MANAGE = f"/console/documents/manage?tenant_id={TENANT}&doc_id={DOC}"


def _file(text: str) -> FilePayload:
    return {"name": f"{DOC}.md", "mimeType": "text/markdown", "buffer": text.encode()}


@pytest.fixture
def guide(demo: Demo) -> Iterator[None]:
    """Put a document for the test, and remove it afterwards."""
    demo.put_document(DOC, "# Guide\n\nThe first edition.")
    yield
    demo.remove_document(DOC)


async def test_an_upload_shows_its_progress(page: Page, demo: Demo) -> None:
    await page.goto(f"/console/documents?tenant_id={TENANT}")
    await page.get_by_role("link", name="Add a document").click()
    await page.get_by_label("Document ID").fill("large")
    await page.get_by_label("Title").fill("A large text")
    await page.get_by_label("Only these users and roles").check()
    await page.get_by_label("Users", exact=True).fill("ann")
    text = "# Large\n\n" + "A line of a large text.\n\n" * 40_000
    await page.get_by_label("File", exact=True).set_input_files(_file(text))
    await page.get_by_role("button", name="Add document").click()
    await expect(page.get_by_role("progressbar")).to_be_visible()
    await expect(page.get_by_role("heading", level=1)).to_have_text("A large text")
    demo.remove_document("large")


async def test_a_file_of_an_unsupported_type_is_reported(page: Page) -> None:
    await page.goto(f"/console/documents/upload?tenant_id={TENANT}")
    file: FilePayload = {"name": "broken.pdf", "mimeType": "application/pdf", "buffer": b"no PDF"}
    await page.get_by_label("File", exact=True).set_input_files(file)
    await page.get_by_role("button", name="Add document").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await expect(page.get_by_label("File", exact=True)).to_have_attribute("aria-invalid", "true")
    await expect_accessible(page)


async def test_a_search_result_can_be_read(page: Page) -> None:
    await page.goto(f"/console/documents/search?tenant_id={TENANT}")
    await page.get_by_label("Query").fill("trips of 7 days")
    await page.get_by_label("User").fill("ann")
    await page.get_by_role("button", name="Search").click()
    await expect(page.get_by_role("heading", name=re.compile(r"^\d+ results?$"))).to_be_visible()
    await page.get_by_role("link", name="Travel policy, page 7").click()
    await expect(page.get_by_text("Trips of 7 days").first).to_be_visible()


async def test_pages_can_be_turned_and_viewed_as_images(page: Page) -> None:
    await page.goto(f"/console/documents/read?tenant_id={TENANT}&doc_id={HANDBOOK}")
    await page.get_by_role("link", name="Next page").first.click()
    await expect(page.get_by_label("Page", exact=True)).to_have_value("2")
    await page.get_by_role("link", name="Image", exact=True).click()
    await page.get_by_role("button", name="Show image").click()
    picture = page.get_by_role("main").get_by_role("img")
    await expect(picture).to_be_visible()
    await expect(picture).to_have_js_property("complete", True)
    assert await picture.evaluate("(it) => it.naturalWidth") > 100


async def test_a_quote_can_be_verified_and_corrected(page: Page) -> None:
    await page.goto(f"/console/documents/verify?tenant_id={TENANT}&doc_id={POLICY}")
    quote = page.get_by_label("Quoted text")
    await quote.fill("Trips of 7 days are paid for by the week.")
    await page.get_by_role("button", name="Verify", exact=True).click()
    await expect(page.get_by_role("heading", name="Not found word for word")).to_be_visible()
    await expect_accessible(page)
    await page.get_by_role("button", name="Verify this text").click()
    await expect(page.get_by_role("heading", name="Found word for word")).to_be_visible()
    await expect_accessible(page)


async def test_readers_can_be_set(page: Page, guide: None) -> None:
    await page.goto(MANAGE)
    await page.get_by_label("Only these users and roles").check()
    await page.get_by_label("Roles", exact=True).fill("editor")
    await page.get_by_role("button", name="Save readers").click()
    await expect(page.get_by_role("status").first).to_be_visible()
    await expect(page.get_by_text("role editor")).to_be_visible()


async def test_a_version_can_be_added_and_the_document_removed(page: Page, guide: None) -> None:
    await page.goto(MANAGE)
    await page.get_by_role("link", name="Add a new version").click()
    await page.get_by_label("File", exact=True).set_input_files(
        _file("# Guide\n\nThe second edition.")
    )
    await page.get_by_role("button", name="Add version").click()
    await expect(page.get_by_text("The second edition.")).to_be_visible()
    await page.get_by_role("link", name="Details and access").click()
    await page.get_by_text("Remove document").click()
    await page.get_by_role("button", name="Remove permanently").click()
    await expect_done(page, DOC)
