"""Document uploads: refusals, and cleanup after them."""

import asyncio
import errno
import json
import os
import tempfile
from collections.abc import AsyncIterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from tests.api.document_operator import (
    ADMIN,
    CONTENT,
    DOC,
    MARKDOWN,
    NEW,
    NOTE,
    Operator,
    operated,
    outcome,
)
from tests.support.document_samples import sample
from tests.support.office_files import docx_of
from tests.support.ole_files import ole_of
from tests.support.tokens import bearer
from tests.support.workbooks import sheet_of, xlsx_of

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.fixture
async def in_folder() -> AsyncIterator[Operator]:
    async with operated() as made:
        yield made


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder for this test."""
    folder = tmp_path / "spool"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.mark.parametrize(
    ("content", "kind", "field"),
    [
        (b"{", "application/json", "body"),
        (b"", "text/markdown", "body"),
        (b"no: PDF", "application/pdf", "body"),
        (b'{"pages": [' + b"0," * 1_000_000 + b"0]}", "application/json", "body"),
        (b"PK no zip", DOCX, "body"),
        (docx_of("text")[:400], DOCX, "body"),
        (b"", "text/html", "body"),
        (b"", "text/csv", "body"),
        (
            json.dumps({"doc_id": "other", "tenant_id": "acme", "title": "t", "pages": ["x"]}),
            "application/json",
            "doc_id",
        ),
        (
            json.dumps({**DOC, "tenant_id": "globex", "title": "t", "pages": ["x"]}),
            "application/json",
            "doc_id",
        ),
    ],
)
async def test_an_invalid_document_body_is_refused_and_leaves_no_file(
    in_folder: Operator, content: Any, kind: str, field: str
) -> None:
    refused = await in_folder.send("PUT", CONTENT, DOC, content, Content_Type=kind, **NEW)
    assert outcome(refused) == (422, "INVALID_REQUEST")
    assert refused.json()["error"]["details"]["field"] == field
    assert outcome(await in_folder.send("GET", CONTENT)) == (404, "NOT_FOUND")


async def test_a_body_of_an_unknown_type_is_refused(in_folder: Operator) -> None:
    refused = await in_folder.send("PUT", CONTENT, DOC, b"x", Content_Type="video/mp4", **NEW)
    assert outcome(refused) == (415, "UNSUPPORTED_FORMAT")
    assert outcome(await in_folder.send("GET", CONTENT)) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("kind", "content", "page"),
    [
        (DOCX, docx_of((1, "Leave"), "Twenty days."), "# Leave\n\nTwenty days."),
        ("text/html; charset=utf-8", b"<h1>Leave</h1><p>Twenty days.", "# Leave\n\nTwenty days."),
        ("text/csv", b"name;days\nAnn;20\n", "| name | days |\n| --- | --- |\n| Ann | 20 |"),
    ],
)
async def test_the_content_type_selects_the_importer(
    in_folder: Operator, kind: str, content: bytes, page: str
) -> None:
    put = await in_folder.send("PUT", CONTENT, DOC, content, **({"Content-Type": kind} | NEW))
    assert put.status_code == 201
    assert (await in_folder.send("GET", CONTENT)).json()["pages"] == [page]


LEAVE = "# Leave\n\nTwenty days."
TABLE = "| name | days |\n| --- | --- |\n| Ann | 20 |"


@pytest.mark.parametrize(
    ("kind", "content", "page"),
    [
        ("application/octet-stream", docx_of((1, "Leave"), "Twenty days."), LEAVE),
        ("application/zip", docx_of((1, "Leave"), "Twenty days."), LEAVE),
        ("text/plain", docx_of((1, "Leave"), "Twenty days."), LEAVE),
        ("text/x-markdown", LEAVE.encode(), LEAVE),
        ("application/xhtml+xml", b"<html xmlns='x'><h1>Leave</h1><p>Twenty days.</p>", LEAVE),
        ("application/msword", b"<html><h1>Leave</h1><p>Twenty days.</p>", LEAVE),
        ("application/vnd.ms-excel", b"name;days\nAnn;20\n", TABLE),
        ("text/tab-separated-values", b"name\tdays\nAnn\t20\n", TABLE),
        ("application/x-ndjson", b'{"a": 1}\n{"a": 2}\n', "| a |\n| --- |\n| 1 |\n| 2 |\n\n"),
        ("application/octet-stream", b'{"days": 20}', "days: 20\n"),
        ("application/octet-stream", b"days: 20", "days: 20"),
        ("application/octet-stream", b"name;days\nAnn;20\nEva;30\n", f"{TABLE}\n| Eva | 30 |"),
        ("", b"name\tdays\nAnn\t20\n", TABLE),
        ("application/geo+json", b'{"days": 20}', "days: 20\n"),
        ("application/atom+xml", b"<html><h1>Leave</h1><p>Twenty days.", LEAVE),
        ("text/x-log", b"days: 20", "days: 20"),
        (
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            xlsx_of({"S": sheet_of([["name", "days"], ["Ann", 20]])}),
            f"## S\n\n{TABLE}\n",
        ),
        ("message/rfc822", b"From: ann@example.org\n\nHi\n", "From: ann@example.org\n\nHi"),
        ("text/rtf", rb"{\rtf1 Twenty days.}", "Twenty days."),
    ],
)
async def test_the_content_decides_what_an_upload_is(
    in_folder: Operator, kind: str, content: bytes, page: str
) -> None:
    put = await in_folder.send("PUT", CONTENT, DOC, content, **({"Content-Type": kind} | NEW))
    assert put.status_code == 201, put.text
    (shown,) = (await in_folder.send("GET", CONTENT)).json()["pages"]
    assert shown == page


async def test_an_old_word_file_is_refused_with_advice(in_folder: Operator) -> None:
    content = ole_of({"WordDocument": b""})
    headers = {"Content-Type": "application/msword"} | NEW
    refused = await in_folder.send("PUT", CONTENT, DOC, content, **headers)
    assert outcome(refused) == (422, "INVALID_REQUEST")
    assert "save it as .docx" in refused.json()["error"]["message"]


async def test_an_upload_over_the_limit_is_refused_and_leaves_no_file(spool: Path) -> None:
    async with operated(max_document_bytes=1_000) as operator:
        refused = await operator.put_note(b"x" * 1_001)
        assert outcome(refused) == (413, "PAYLOAD_TOO_LARGE")
        assert (await operator.put_note(b"x" * 1_000)).status_code == 201
    assert files_in(spool) == []


async def test_an_upload_can_be_larger_than_other_requests() -> None:
    async with operated(max_request_bytes=1_000) as operator:
        assert (await operator.put_note(b"word " * 10_000)).status_code == 201


async def test_imports_of_one_tenant_run_one_at_a_time(in_folder: Operator) -> None:
    async with asyncio.TaskGroup() as group:
        puts = [
            group.create_task(in_folder.put_note(query={**DOC, "doc_id": f"d{n}"}))
            for n in range(2)
        ]
    statuses = sorted(put.result().status_code for put in puts)
    assert statuses == [201, 409]
    (busy,) = [put.result() for put in puts if put.result().status_code == 409]
    assert (busy.json()["error"]["code"], busy.json()["error"]["retryable"]) == (
        "IMPORT_BUSY",
        True,
    )
    assert busy.headers["Retry-After"] == "5"


async def test_an_interrupted_upload_leaves_no_file(in_folder: Operator, spool: Path) -> None:
    messages = iter([{"type": "http.request", "body": NOTE, "more_body": True}])

    async def receive() -> dict[str, Any]:
        return next(messages, {"type": "http.disconnect"})

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = bearer(ADMIN) | MARKDOWN | NEW | {"Host": "localhost"}
    scope = {
        "type": "http",
        "method": "PUT",
        "path": CONTENT,
        "query_string": b"tenant_id=acme&doc_id=cut",
        "headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()],
        "client": ("127.0.0.1", 1),
    }
    await in_folder.service.app(scope, receive, send)
    assert sent[0]["status"] == 499  # unread
    assert files_in(spool) == []
    cut = {"tenant_id": "acme", "doc_id": "cut"}
    assert outcome(await in_folder.send("GET", CONTENT, cut)) == (404, "NOT_FOUND")


async def test_an_upload_without_a_temporary_folder_is_503(
    in_folder: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "no such folder")
    refused = await in_folder.put_note()
    assert outcome(refused) == (503, "DOCUMENTS_UNAVAILABLE")


async def test_an_import_whose_process_cannot_be_started_is_503(
    in_folder: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(asyncio.get_running_loop(), "subprocess_exec", refuse)
    refused = await in_folder.put_note()
    assert outcome(refused) == (503, "DOCUMENTS_UNAVAILABLE")
    monkeypatch.undo()
    assert (await in_folder.put_note()).status_code == 201


@pytest.mark.parametrize("bound", ["MAX_UPLOADS", "MAX_UPLOADS_OF_TENANT"])
async def test_parallel_uploads_are_limited_by_the_disk_space(
    in_folder: Operator, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(f"mcp_tools_proxy.http.api.document_upload.{bound}", 1)
    is_taken, may_end = asyncio.Event(), asyncio.Event()

    async def slow_body() -> AsyncIterator[bytes]:
        yield b" "
        is_taken.set()  # asks for more
        await may_end.wait()
        yield json.dumps({**DOC, "title": "t", "pages": ["x"]}).encode()

    as_json = {"Content-Type": "application/json"} | NEW
    async with asyncio.TaskGroup() as group:
        first = group.create_task(in_folder.send("PUT", CONTENT, DOC, slow_body(), **as_json))
        await is_taken.wait()
        refused = await in_folder.put_note()
        may_end.set()
    assert outcome(refused) == (409, "IMPORT_BUSY")
    assert first.result().status_code == 201


async def test_a_text_that_grows_as_json_is_imported() -> None:
    async with operated(max_document_bytes=1_000_000) as operator:
        assert (await operator.put_note(b"1\t2\t3\t" * 150_000)).status_code == 201


async def test_an_upload_to_a_full_disk_is_503(
    in_folder: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mcp_tools_proxy.http.api.document_upload.open_temporary",
        lambda _prefix: FileIO("/dev/full", "r+"),
    )
    assert outcome(await in_folder.put_note()) == (503, "DOCUMENTS_UNAVAILABLE")


async def test_an_upload_sets_its_language_which_lists_show(in_folder: Operator) -> None:
    put = await in_folder.put_note(query=DOC | {"language": "pt-BR"})
    wrong = await in_folder.put_note(query={**DOC, "doc_id": "x", "language": "German, I think"})
    assert (put.json()["language"], outcome(wrong)) == ("pt-BR", (422, "INVALID_REQUEST"))
    user = {"user_id": "bob", "tenant_id": "acme"}
    listed = (await in_folder.service.http.get("/internal/mcp/documents", params=user)).json()
    assert [it["language"] for it in listed["documents"]] == ["pt-BR"]
    shown = (await in_folder.send("GET", CONTENT)).json()
    assert shown["language"] == "pt-BR"


async def test_the_charset_of_an_upload_is_its_encoding() -> None:
    text = "См. [список](https://example.com)."
    async with operated(import_link_targets=False) as operator:
        kind = "text/markdown; charset=KOI8-R"
        headers = {"Content_Type": kind, **NEW}
        put = await operator.put_note(text.encode("koi8-r"), **headers)
        shown = (await operator.send("GET", CONTENT)).json()
    assert (put.status_code, shown["pages"]) == (201, ["См. список."])


async def test_a_setting_leaves_out_the_notes_of_reviewers() -> None:
    async with operated(import_notes=False) as operator:
        headers = {"Content_Type": "application/pdf", **NEW}
        await operator.put_note(sample("25-freetext-annotation.pdf"), **headers)
        shown = (await operator.send("GET", CONTENT)).json()
    assert shown["pages"] == ["Draft of the budget.\nApproved by the board on 3 May."]


async def test_an_unknown_charset_is_refused(in_folder: Operator) -> None:
    refused = await in_folder.put_note(Content_Type="text/plain; charset=klingon", **NEW)
    assert outcome(refused) == (415, "UNSUPPORTED_FORMAT")
    assert "klingon" in refused.text


async def test_readers_in_the_query_are_the_only_readers(in_folder: Operator) -> None:
    query = {**DOC, "reader_user": ["ann", "eve"], "reader_role": "audit"}
    put = await in_folder.put_note(query=query)
    readers = {"users": ["ann", "eve"], "roles": ["audit"]}
    assert (put.status_code, put.json()["readers"]) == (201, readers)
    assert [await in_folder.code(user_id=it) for it in ("bob", "ann")] == ["ACCESS_DENIED", "OK"]
    again = await in_folder.put_note(b"# Newer\n\ntext\n", If_Match="*")
    assert again.json()["readers"] == readers
    query = {**DOC, "reader_role": "law"}
    others = await in_folder.put_note(query=query, If_Match="*")
    assert others.json()["readers"] == {"users": [], "roles": ["law"]}


async def test_an_invalid_reader_id_is_refused(in_folder: Operator) -> None:
    refused = await in_folder.put_note(query={**DOC, "reader_user": ""})
    assert outcome(refused) == (422, "INVALID_REQUEST")
