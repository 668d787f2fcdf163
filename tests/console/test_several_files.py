"""The console's form for several files."""

from collections.abc import AsyncIterator

import pytest

from tests.console.document_pages import BOUNDARY, NOTE, UPLOAD, facts, put, send_form
from tests.support.console_browser import ConsoleBrowser, ConsoleService, Html, running_console
from tests.support.service import eventually

UPLOADS = "/console/documents/uploads"


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console() as started:
        yield started


async def send_files(browser: ConsoleBrowser, *names: str, **fields: str) -> tuple[int, Html]:
    page = await browser.open(UPLOADS)
    csrf = page.form(UPLOAD).fields["csrf"]
    body = b""
    for name, value in {"csrf": csrf, "several": "1", "tenant_id": "acme", **fields}.items():
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
        body += f"{head}{value}\r\n".encode()
    for name in names:
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"'
        body += f"{head}\r\nContent-Type: text/x-any\r\n\r\n".encode() + NOTE + b"\r\n"
    response = await send_form(browser, body + f"--{BOUNDARY}--\r\n".encode())
    return response.status_code, Html(response.text)


async def test_several_files_become_documents(console: ConsoleService) -> None:
    await put(console, "taken")
    status, page = await send_files(console.browser, "a.md", "b.exe", "taken.md", "c.txt", tags="x")
    assert status == 200
    assert "Unsupported file type" in page.text
    (states,) = {it for it in page.links if "ids=" in it}

    async def are_added() -> bool:
        shown = await console.browser.open(states)
        return shown.text.count("Added") == 2

    await eventually(are_added)
    found = await facts(console)
    assert found.keys() == {"taken", "a", "c"}
    assert found["c"]["tags"] == ["x"]  # type: ignore[index]
    assert "already exists" in page.text


async def test_a_failed_import_is_explained_and_refused_files_stay(console: ConsoleService) -> None:
    status, page = await send_files(console.browser, "a.pdf", "b.exe")
    assert status == 200
    # the states are loaded again every two seconds
    assert "b.exe" in page.text.partition("State")[0]
    (states,) = {it for it in page.links if "ids=" in it}

    async def is_explained() -> bool:
        shown = await console.browser.open(states)
        return "Failed Is text, not a .pdf file" in shown.text

    await eventually(is_explained)


async def test_readers_apply_to_all_files(console: ConsoleService) -> None:
    await send_files(console.browser, "a.md", "b.md", readers="some", users="ann")

    async def are_added() -> bool:
        return len(await facts(console)) == 2

    await eventually(are_added)
    found = await facts(console)
    readers = [it["readers"] for it in found.values()]  # type: ignore[index]
    assert readers == [{"users": ["ann"], "roles": []}] * 2


async def test_a_form_with_problems_sends_nothing(console: ConsoleService) -> None:
    for fields, problem in (
        ({"tenant_id": ""}, "Enter a tenant"),
        ({"readers": "some"}, "Enter users or roles"),
    ):
        status, page = await send_files(console.browser, "a.md", **fields)
        assert (status, problem in page.text) == (422, True)
    status, page = await send_files(console.browser)
    assert (status, "Choose files" in page.text) == (422, True)
    assert await facts(console) == {}


async def test_unknown_uploads_are_named(console: ConsoleService) -> None:
    page = await console.browser.open(f"{UPLOADS}?tenant_id=acme&ids=unknown")
    assert "no upload with this id" in page.text
