"""The page of error messages, beside the code and beside errors that happen."""

import re
from collections.abc import Mapping, Sequence

from docs.error_messages import PAGE, written
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import errors_by_code
from tests.support.service import BATCH, EXECUTE, TOOLS, running
from tests.support.tables import named_row

TEXT = PAGE.read_text(encoding="utf-8")
Json = dict[str, object]
READ = "read_doc_pages"
DOC: Json = {"doc_id": "doc_1"}


def listed() -> Mapping[str, Sequence[str]]:
    """Return the messages of each code as the page has them."""
    of_code: dict[str, list[str]] = {}
    for section in TEXT.partition("## By code")[2].partition("\n## ")[0].split("\n### ")[1:]:
        code, _, items = section.partition("\n")
        of_code[code] = re.findall(r"^- (.*)$", items, re.MULTILINE)
    return of_code


def is_listed(code: str, message: str) -> bool:
    """Whether the page has the message, with something for each placeholder."""
    texts = (text.replace("&lt;", "<") for text in listed()[code])
    patterns = (".+".join(map(re.escape, re.split(r"\{\w+\}", text))) for text in texts)
    return any(re.fullmatch(pattern, message) for pattern in patterns)


def test_the_page_is_what_the_code_says() -> None:
    """``make docs`` writes its lists."""
    assert written(TEXT) == TEXT


def test_it_has_a_message_for_every_code() -> None:
    assert {code for code, messages in listed().items() if messages} == {
        *errors_by_code(),
        CapacityExceeded.code,
    }


CALLS: Sequence[tuple[str, str, Json]] = [
    ("TOOL_NOT_FOUND", "read_pages", {}),
    ("TOOL_NOT_FOUND", "zzz", {}),
    ("TOOL_NOT_ALLOWED", "server:tool", {}),
    ("INVALID_ARGUMENTS", READ, DOC | {"page_start": 1, "page_end": 1, "pagestart": 3}),
    ("PAGE_SPAN_TOO_LARGE", READ, DOC | {"page_start": 1, "page_end": 500}),
    ("PAGES_NOT_FOUND", READ, DOC | {"page_start": 500, "page_end": 500}),
    ("DOCUMENT_NOT_FOUND", "read_doc_metadata", {"doc_id": "none"}),
    ("SECTION_NOT_FOUND", "read_doc_section", DOC | {"section_id": "none"}),
    ("CONTENT_BLOCKED", "doc_local_search", DOC | {"query": "the word that is forbidden"}),
    ("RETRIEVAL_NOT_CONFIGURED", "read_chunk_window", DOC | {"anchor_chunk_id": "c"}),
]


async def test_a_call_that_is_refused_has_a_message_of_the_page() -> None:
    async with running(mock_mode=True, blocklist_keywords="forbidden") as service:
        for code, tool, arguments in CALLS:
            with named_row(code, tool):
                error = (await service.execute(tool, arguments))["error"]
                assert error["code"] == code
                assert is_listed(code, error["message"]), error["message"]


REQUESTS: Sequence[tuple[str, str, str]] = [
    ("INVALID_REQUEST", EXECUTE, "{"),
    ("INVALID_REQUEST", EXECUTE, '{"tool_name": "a", "tool_name": "b"}'),
    (
        "INVALID_REQUEST",
        BATCH,
        '{"calls": [{"type": "function"}], "user": {"user_id": "u", "tenant_id": "t"}}',
    ),
    ("NOT_FOUND", "/internal/mcp/run", "{}"),
    ("METHOD_NOT_ALLOWED", TOOLS, "{}"),
]


async def test_a_request_that_is_refused_has_a_message_of_the_page() -> None:
    headers = {"content-type": "application/json"}
    async with running() as service:
        for code, path, body in REQUESTS:
            with named_row(code, path, body):
                answer = await service.http.post(path, content=body, headers=headers)
                error = answer.json()["error"]
                assert error["code"] == code
                assert is_listed(code, error["message"]), error["message"]
