"""The upload form: accepted input, refusals, and streaming of files."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.types import Message

from tests.console.document_pages import (
    BOUNDARY,
    CONTENT,
    MANAGE,
    NOTE,
    READ,
    UPLOAD,
    facts,
    file_form,
    page_of,
    problems,
    put,
    send_form,
    upload,
)
from tests.support.console_browser import ADMIN, ORIGIN, ConsoleService, Html, running_console
from tests.support.tables import named_row
from tests.support.tokens import bearer


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console() as started:
        yield started


async def test_an_uploaded_file_becomes_a_document(console: ConsoleService) -> None:
    done = await upload(
        console.browser, doc_id="note", title="A title", tags="vpn, new", language="en"
    )
    assert (done.status_code, done.headers["location"]) == (303, page_of(READ))
    page = await console.browser.open(done.headers["location"])
    assert "Document added" in page.text
    found = (await facts(console))["note"]
    assert found | {"version": "", "text_chars": 0} == {  # type: ignore[operator]
        "tenant_id": "acme",
        "doc_id": "note",
        "title": "A title",
        "tags": ["vpn", "new"],
        "pages": 1,
        "sections": 2,
        "text_chars": 0,
        "version": "",
        "language": "en",
    }


async def test_readers_apply_from_the_first_moment(console: ConsoleService) -> None:
    await upload(console.browser, readers="some", users="ann\nbob", roles="audit")
    found = (await facts(console))["note"]
    assert found["readers"] == {"users": ["ann", "bob"], "roles": ["audit"]}  # type: ignore[index]


async def test_an_uploaded_file_is_marked_untrusted_until_its_facts_say_otherwise(
    console: ConsoleService,
) -> None:
    await upload(console.browser, doc_id="note", untrusted="1")
    assert (await facts(console))["note"]["untrusted"] is True  # type: ignore[index]
    page = await console.browser.open(page_of(MANAGE))
    assert "Untrusted: strangers could write the text" in page.text
    (form,) = [it for it in page.forms if it.fields.get("do") == "facts"]
    assert form.fields.pop("untrusted") == "1"
    assert (await console.browser.post(MANAGE, form.fields)).status_code == 303
    assert "untrusted" not in (await facts(console))["note"]  # type: ignore[operator]
    page = await console.browser.open(page_of(MANAGE))
    (form,) = [it for it in page.forms if it.fields.get("do") == "facts"]
    assert "untrusted" not in form.fields


async def test_the_default_id_is_the_file_name(console: ConsoleService) -> None:
    for file_name, tenant_id, doc_id in [
        ("Größe 1%.md", "first", "Größe 1%"),
        ("C:\\files\\note.MD", "second", "note"),
        ("a.b.txt", "third", "a.b"),
    ]:
        with named_row(file_name):
            await upload(console.browser, file_name, tenant_id=tenant_id)
            assert [*await facts(console, tenant_id)] == [doc_id]


async def test_an_error_is_shown_with_the_form_and_nothing_is_added(
    console: ConsoleService,
) -> None:
    for file_name, fields, message in [
        (None, {}, "Choose a file."),
        ("", {}, "Choose a file."),
        ("table.exe", {}, "Use one of: .pdf, .md"),
        ("note.md", {"tenant_id": ""}, "Enter a tenant."),
        ("note.md", {"readers": "some"}, "Enter users or roles"),
        ("note.md", {"language": "no language"}, "language: "),
        ("note.md", {"doc_id": "x" * 300}, "doc_id: "),
        ("note.pdf", {}, "Is text, not a .pdf file"),
        ("note.json", {}, "is not strict JSON"),
    ]:
        with named_row(file_name, fields, message):
            refused = await upload(console.browser, file_name, NOTE, **{"title": "Kept", **fields})
            assert refused.status_code == 422
            assert message.lower() in problems(refused).lower()
            assert Html(refused.text).form(UPLOAD).fields["title"] == "Kept"
            assert await facts(console) == {}


async def test_a_duplicate_id_links_to_the_document(console: ConsoleService) -> None:
    await put(console)
    refused = await upload(console.browser, doc_id="note", content=b"# Another\n")
    assert refused.status_code == 412
    assert page_of(MANAGE) in Html(refused.text).links
    assert (await facts(console))["note"]["title"] == "A note"  # type: ignore[index]


async def test_a_new_version_replaces_only_the_reviewed_one(
    console: ConsoleService,
) -> None:
    version = await put(console, reader_user="ann")
    manage = await console.browser.open(page_of(MANAGE))
    (link,) = [it for it in manage.links if it.startswith(UPLOAD)]
    fields = (await console.browser.open(link)).form(UPLOAD).fields
    assert (fields["version"], fields["doc_id"], fields["title"]) == (version, "note", "A note")
    new = file_form({**fields, "title": ""}, "any.md", b"# Newer\n\ntext\n")
    done = await send_form(console.browser, new)
    assert done.headers["location"] == page_of(READ)
    assert "No previous versions" in manage.text
    kept = (await console.browser.open(page_of(MANAGE))).text.partition(
        "Previous versions, newest first"
    )[2]
    assert version in kept
    found = (await facts(console))["note"]
    assert found["title"] == "Newer"  # type: ignore[index]
    assert found["readers"]["users"] == ["ann"]  # type: ignore[index]
    refused = await send_form(console.browser, new)
    assert refused.status_code == 412
    assert "the document has changed since you opened it" in problems(refused)


async def test_an_oversized_file_is_reported(console: ConsoleService) -> None:
    async with running_console(max_document_bytes=1_000) as small:
        refused = await upload(small.browser, content=b"x" * 1_001)
        assert refused.status_code == 413
        assert "limit of 1.0 kB" in problems(refused)
        assert (await upload(small.browser, content=b"x" * 1_000)).status_code == 303


async def test_a_foreign_form_is_refused_before_its_file(console: ConsoleService) -> None:
    csrf = (await console.browser.open(UPLOAD)).form(UPLOAD).fields["csrf"]
    for fields, origin in (
        ({"tenant_id": "acme"}, ORIGIN),
        ({"csrf": "x", "tenant_id": "acme"}, ORIGIN),
        ({"csrf": csrf, "tenant_id": "acme"}, "http://evil.example"),
    ):
        refused = await send_form(
            console.browser, file_form(fields, "note.md", NOTE), origin=origin
        )
        assert refused.status_code == 403
    behind = file_form({"tenant_id": "acme"}, "note.md", NOTE).replace(
        f"--{BOUNDARY}--".encode(), file_form({"csrf": csrf}, None)
    )
    assert (await send_form(console.browser, behind)).status_code == 403
    assert await facts(console) == {}


async def test_an_unreadable_form_is_reported(console: ConsoleService) -> None:
    whole = file_form({"csrf": "x"}, "note.md", NOTE)
    csrf = (await console.browser.open(UPLOAD)).form(UPLOAD).fields["csrf"]
    cut = file_form({"csrf": csrf, "tenant_id": "acme"}, "note.md", NOTE)[:-30]
    for body in (b"no form", whole.replace(b"\r\n\r\n", b"\r\n"), b"x" * 100_000):
        assert (await send_form(console.browser, body)).status_code == 422
    refused = await send_form(console.browser, cut)
    assert refused.status_code == 422
    assert "upload was incomplete" in problems(refused)
    fields = file_form({"csrf": csrf, "title": "x" * 70_000}, "note.md", NOTE)
    assert (await send_form(console.browser, fields)).status_code == 413
    assert await facts(console) == {}


async def test_only_the_upload_form_accepts_a_file(console: ConsoleService) -> None:
    await put(console)
    body = file_form({"csrf": "x"}, "note.md", NOTE)
    headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}", "origin": ORIGIN}
    refused = await console.browser.send("POST", page_of(MANAGE), body, headers)
    assert refused.status_code == 422


async def test_a_refused_form_leaves_its_file_unread(console: ConsoleService) -> None:
    fields = file_form({"csrf": "wrong"}, "note.md").removesuffix(file_form({}, None))
    pulled: list[int] = []

    async def receive() -> Message:
        pulled.append(1)
        await asyncio.sleep(0)
        body = fields if len(pulled) == 1 else b"x" * 65_536
        return {"type": "http.request", "body": body, "more_body": True}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    cookie = "; ".join(f"{name}={it}" for name, it in console.browser.cookies.items())
    scope = {
        "type": "http",
        "method": "POST",
        "path": UPLOAD,
        "raw_path": UPLOAD.encode(),
        "root_path": "",
        "query_string": b"",
        "scheme": "http",
        "http_version": "1.1",
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "headers": [
            (b"host", b"localhost"),
            (b"origin", ORIGIN.encode()),
            (b"cookie", cookie.encode()),
            (b"content-type", f"multipart/form-data; boundary={BOUNDARY}".encode()),
        ],
    }
    await console.service.app(scope, receive, send)
    assert sent[0]["status"] == 403
    assert len(pulled) <= 2


async def test_the_uploaded_content_is_shown_as_text(console: ConsoleService) -> None:
    await upload(console.browser, "<b>.md", b"# `<script>alert(1)</script>`\n\n<img src=x>\n")
    response = await console.browser.get(page_of(READ, "<b>"))
    assert "<script>alert(1)" not in response.text
    assert "<script>alert(1)</script>" in Html(response.text).text


async def test_every_byte_of_a_file_is_stored(console: ConsoleService) -> None:
    """Including bytes that look like the end of a part."""
    content = f"a\r\n--{BOUNDARY[:-1]}\r\n--\r\r\n\n\r\n-".encode() + b"x" * 200_000
    await upload(console.browser, "odd.txt", content)
    query = {"tenant_id": "acme", "doc_id": "odd"}
    answer = await console.service.http.get(CONTENT, params=query, headers=bearer(ADMIN))
    await put(console, "by-api", content, kind="text/plain")
    query["doc_id"] = "by-api"
    same = await console.service.http.get(CONTENT, params=query, headers=bearer(ADMIN))
    assert answer.json()["pages"] == same.json()["pages"]
