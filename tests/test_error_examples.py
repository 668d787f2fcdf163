"""The examples on the page of errors match real errors."""

import re
from collections.abc import Mapping, Sequence

from tests.support.service import EXECUTE, TOOLS, running
from tests.support.source_files import ROOT
from tests.support.tables import named_row

PAGE = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
Json = dict[str, object]
DOC: Json = {"doc_id": "doc_1"}


def examples() -> Mapping[str, str]:
    rows = re.findall(r"^\| `([A-Z_]+)`.* \| ([^|]+) \|$", PAGE, re.MULTILINE)
    return {code: example.replace("&lt;", "<") for code, example in rows}


CALLS: Sequence[tuple[str, str, Json]] = [
    ("TOOL_NOT_FOUND", "read_pages", {}),
    ("INVALID_ARGUMENTS", "read_doc_pages", DOC | {"page_start": 1, "pagestart": 3, "page_end": 1}),
    ("PAGE_SPAN_TOO_LARGE", "read_doc_pages", DOC | {"page_start": 1, "page_end": 500}),
    ("PAGES_NOT_FOUND", "read_doc_pages", DOC | {"page_start": 500, "page_end": 500}),
    ("DOCUMENT_NOT_FOUND", "read_doc_metadata", {"doc_id": "handbok"}),
    ("CONTENT_BLOCKED", "doc_local_search", DOC | {"query": "the word that is forbidden"}),
    ("RETRIEVAL_NOT_CONFIGURED", "read_chunk_window", DOC | {"anchor_chunk_id": "c"}),
]


def test_every_code_has_an_example() -> None:
    codes = re.findall(r"^\| `([A-Z_]+)`", PAGE, re.MULTILINE)
    assert codes
    assert [code for code in codes if not examples()[code].strip()] == []


async def test_a_refused_call_has_the_message_of_the_example() -> None:
    async with running(mock_mode=True, blocklist_keywords="forbidden") as service:
        for code, tool, arguments in CALLS:
            with named_row(code, tool):
                error = (await service.execute(tool, arguments))["error"]
                assert (error["code"], error["message"]) == (code, examples()[code])


REQUESTS: Sequence[tuple[str, str, Mapping[str, str]]] = [
    ("INVALID_REQUEST", EXECUTE, {"Idempotency-Key": ""}),
    ("METHOD_NOT_ALLOWED", TOOLS, {}),
]


async def test_a_refused_request_has_the_message_of_the_example() -> None:
    body = '{"tool_name": "a", "user": {"user_id": "u", "tenant_id": "t"}}'
    async with running() as service:
        for code, path, headers in REQUESTS:
            with named_row(code, path):
                answer = await service.http.post(path, content=body, headers=headers)
                error = answer.json()["error"]
                assert (error["code"], error["message"]) == (code, examples()[code])
