"""No byte of another tenant's data through any tool, batch, log line, metric or error."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from mcp_tools_proxy.domain.document import Document, Section
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Json
from tests.support.local_tools import document_calls
from tests.support.service import BATCH, EXECUTE, Service, request_of, running

SECRET = "zanzibar"


def secret_document(tenant_id: str, doc_id: str, word: str) -> Document:
    return make_document(
        tenant_id=tenant_id,
        doc_id=doc_id,
        title=f"{word} title",
        pages=(f"{word} text about ladders",),
        sections={
            f"{word}-section": Section(
                section_id=f"{word}-section", title=f"{word} section", page_start=1, page_end=1
            )
        },
    )


CALLS: list[tuple[str, dict[str, object]]] = [
    ("read_doc_metadata", {}),
    ("read_doc_section", {"section_id": f"{SECRET}-section"}),
    ("read_doc_section", {"section_id": "guessed"}),
    ("read_doc_pages", {"page_start": 1, "page_end": 1}),
    ("read_doc_pages", {"page_start": 9, "page_end": 9}),
    ("doc_local_search", {"query": "ladders"}),
    ("read_chunk_window", {"anchor_chunk_id": "p1-c1", "radius": 1}),
    ("list_documents", {}),
    ("list_documents", {"query": SECRET}),
    ("search_documents", {"query": SECRET}),
    ("verify_quote", {"quote": f"{SECRET} text"}),
    ("list_available_tools", {}),
]
CALLS += [(name, {**it}) for name, it in document_calls() if name not in dict(CALLS)]


async def retrieval(request: httpx.Request) -> httpx.Response:
    """Answer only for tenant_2, like a Retrieval Service that checks tenants."""
    wanted = json.loads(request.content)
    if wanted["tenant_id"] != "tenant_2":
        return httpx.Response(403)
    chunk = {"chunk_id": "p1-c1", "page": 1, "chunk_index": 0, "text": f"{SECRET} text"}
    return httpx.Response(200, json={"chunks": [chunk]})


@pytest.fixture(scope="module")
async def service(shared_settings: Json) -> AsyncIterator[Service]:
    documents = (
        secret_document("tenant_2", "theirs", SECRET),
        secret_document("tenant_2", "both", SECRET),
        secret_document("tenant_1", "both", "mine"),
    )
    async with running(
        *documents,
        retrieval_transport=httpx.MockTransport(retrieval),
        retrieval_window_url="http://retrieval/window",
        **shared_settings,
    ) as started:
        await started.execute("doc_local_search", {"doc_id": "both", "query": "ladders"},
                              tenant_id="tenant_2")  # fmt: skip
        await started.execute("read_chunk_window", {"doc_id": "both", "anchor_chunk_id": "p1-c1"},
                              tenant_id="tenant_2")  # fmt: skip
        yield started


def with_document(arguments: dict[str, object], tool_name: str, doc_id: str) -> dict[str, object]:
    return arguments if tool_name.startswith("list_") else {"doc_id": doc_id} | arguments


def without_arguments(text: str, arguments: dict[str, object]) -> str:
    """Remove the caller's own text, which an answer may repeat."""
    return text.replace(str(arguments.get("section_id", "\0")), "")


@pytest.mark.parametrize(("tool_name", "arguments"), CALLS)
@pytest.mark.parametrize("doc_id", ["theirs", "both"])
async def test_a_call_reveals_nothing_of_another_tenant(
    service: Service, tool_name: str, arguments: dict[str, object], doc_id: str
) -> None:
    body = request_of(tool_name, with_document(arguments, tool_name, doc_id))
    response = await service.http.post(EXECUTE, json=body)
    assert SECRET not in without_arguments(response.text, arguments)


async def test_a_batch_reveals_nothing_of_another_tenant(service: Service) -> None:
    calls = [
        {"tool_name": tool_name, "arguments": with_document(arguments, tool_name, doc_id)}
        for tool_name, arguments in CALLS
        for doc_id in ("theirs", "both")
    ]
    user = {"user_id": "u", "tenant_id": "tenant_1"}
    response = await service.http.post(BATCH, json={"calls": calls, "user": user})
    assert SECRET not in response.text.replace(f"{SECRET}-section", "")


async def test_no_log_line_contains_document_text(service: Service) -> None:
    with capture_logs() as lines:
        for tool_name, arguments in CALLS:
            for tenant_id in ("tenant_1", "tenant_2"):
                await service.execute(
                    tool_name, with_document(arguments, tool_name, "both"), tenant_id=tenant_id
                )
    assert SECRET not in json.dumps(lines, default=str)


async def test_no_metric_names_a_tenant_or_document(service: Service) -> None:
    for tool_name, arguments in CALLS:
        await service.execute(tool_name, with_document(arguments, tool_name, "theirs"))
    exposition = (await service.http.get("/metrics")).text
    assert not any(
        word in exposition for word in ("tenant_1", "tenant_2", "both", "theirs", SECRET)
    )


async def test_readiness_names_no_tenant_or_document(service: Service) -> None:
    text = (await service.http.get("/health/ready")).text
    assert not any(word in text for word in ("tenant_1", "tenant_2", "both", "theirs"))


@pytest.mark.parametrize("tool_name", [name for name, _ in document_calls()])
async def test_a_foreign_document_is_denied(service: Service, tool_name: str) -> None:
    arguments = next(arguments for name, arguments in CALLS if name == tool_name)
    assert await service.code(tool_name, {"doc_id": "theirs"} | arguments) == "ACCESS_DENIED"


async def test_a_foreign_document_can_be_hidden() -> None:
    async with running(
        secret_document("tenant_2", "theirs", SECRET),
        hide_foreign_documents=True,
    ) as service:
        foreign = (await service.execute("read_doc_metadata", {"doc_id": "theirs"}))["error"]
        nobodys = (await service.execute("read_doc_metadata", {"doc_id": "nobody"}))["error"]
        assert foreign["message"].replace("theirs", "nobody") == nobodys["message"]


async def test_budgets_of_tenants_are_separate() -> None:
    async with running(rate_limit_tenant_calls=1) as service:
        await service.execute("list_available_tools", tenant_id="tenant_1")
        assert await service.code("list_available_tools", tenant_id="tenant_2") == "OK"


@pytest.mark.requirement("T-03", "T-04")
async def test_hidden_foreign_documents_look_missing_through_retrieval_too() -> None:
    def retrieval(request: httpx.Request) -> httpx.Response:
        return httpx.Response(403 if b"theirs" in request.content else 404)

    async with running(
        retrieval_transport=httpx.MockTransport(retrieval),
        retrieval_window_url="http://retrieval/window",
        mock_mode=False,
        hide_foreign_documents=True,
    ) as service:
        answers = [
            await service.execute("read_chunk_window", {"doc_id": doc_id, "anchor_chunk_id": "c"})
            for doc_id in ("theirs", "nobody")
        ]
    foreign, nobodys = (answer["error"] for answer in answers)
    assert str(foreign).replace("theirs", "nobody") == str(nobodys)
