"""read_chunk_window without a Retrieval Service: from the gateway's own documents, or disabled."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.documents.layout import chunks_of
from mcp_tools_proxy.domain.document import Chunk
from retrieval_service.app import WINDOW_PATH, RetrievalSettings, create_app
from tests.support.builders import make_document
from tests.support.service import READY, TOOLS, Service, running

LOCAL = "local"
LONG = make_document(doc_id="long", pages=["Предложение о том о сём. " * 200, "", "Second page."])
OWN = make_document(
    doc_id="own",
    pages=["a", "b"],
    own_chunks=tuple(
        Chunk(chunk_id=f"ключ:{n}", page=1, chunk_index=n, source=text, start=0, end=len(text))
        for n, text in enumerate(("one", "", "three"))
    ),
)
TABLE = replace(
    make_document(
        doc_id="table",
        pages=[
            "\n".join(
                ["| Part | Price |", "|---|---|", *(f"| bolt {n} | {n} |" for n in range(99))]
            )
        ],
    ),
    text_format="markdown",
)
FOREIGN = make_document(tenant_id="tenant_2", doc_id="foreign")
WINDOW = "read_chunk_window"
SIDES: tuple[dict[str, object], ...] = ({}, {"window_before": 2}, {"radius": 1})


@asynccontextmanager
async def through_the_reference_service(folder: Path) -> AsyncIterator[Service]:
    """Start the gateway with the reference Retrieval Service over the same documents."""
    for document in (LONG, OWN, TABLE):
        write_document(folder, document, replace=False)
    retrieval = create_app(RetrievalSettings(documents_path=folder))
    async with (
        retrieval.router.lifespan_context(retrieval),
        running(
            LONG,
            OWN,
            TABLE,
            retrieval_window_url=f"http://retrieval{WINDOW_PATH}",
            retrieval_transport=httpx.ASGITransport(retrieval),
        ) as service,
    ):
        yield service


@pytest.mark.requirement("T-02", "T-03")
async def test_local_windows_equal_those_of_the_reference_service(tmp_path: Path) -> None:
    async with (
        running(LONG, OWN, TABLE, retrieval_window_url=LOCAL) as local,
        through_the_reference_service(tmp_path / "documents") as remote,
    ):
        for document in (LONG, OWN, TABLE):
            chunks = chunks_of(document)
            assert len(chunks) > 1
            for chunk in chunks:
                arguments = {"doc_id": document.doc_id, "anchor_chunk_id": chunk.chunk_id}
                for sides in SIDES:
                    assert await local.result(WINDOW, arguments | sides) == await remote.result(
                        WINDOW, arguments | sides
                    )


async def test_a_chunk_within_a_table_has_the_names_of_the_columns() -> None:
    async with running(TABLE, retrieval_window_url=LOCAL) as service:
        arguments = {"doc_id": "table", "anchor_chunk_id": "p1-c2", "window_before": 1}
        first, second = (await service.result(WINDOW, arguments))["chunks"]
        assert first["text"].startswith("| Part | Price |")
        assert "columns" not in first
        assert (second["text"][:7], second["columns"]) == ("| bolt ", "Part | Price")


@pytest.mark.requirement("T-03")
@pytest.mark.parametrize("mock_mode", [True, False])
async def test_a_search_result_can_be_read_with_its_surroundings(*, mock_mode: bool) -> None:
    async with running(LONG, retrieval_window_url=LOCAL, mock_mode=mock_mode) as service:
        found = await service.result("doc_local_search", {"doc_id": "long", "query": "second"})
        anchor = found["snippets"][0]["chunk_id"]
        window = await service.result(
            WINDOW, {"doc_id": "long", "anchor_chunk_id": anchor, "window_before": 1}
        )
        assert [chunk["chunk_id"] for chunk in window["chunks"]][-1] == anchor == "p3-c1"
        assert (window["count"], window["chunks"][-1]["text"]) == (2, "Second page.")


@pytest.mark.requirement("T-03", "T-04")
@pytest.mark.parametrize("mock_mode", [True, False])
@pytest.mark.parametrize(
    ("doc_id", "anchor", "code"),
    [
        ("foreign", "p1-c1", "ACCESS_DENIED"),
        ("nobody's", "p1-c1", "DOCUMENT_NOT_FOUND"),
        ("long", "p99-c1", "CHUNK_NOT_FOUND"),
    ],
)
async def test_a_missing_document_or_chunk_has_its_code(
    doc_id: str, anchor: str, code: str, *, mock_mode: bool
) -> None:
    async with running(
        LONG, FOREIGN, retrieval_window_url=LOCAL, mock_mode=mock_mode, rate_limit_calls=2
    ) as service:
        arguments = {"doc_id": doc_id, "anchor_chunk_id": anchor}
        assert [await service.code(WINDOW, arguments) for _ in range(2)] == [code] * 2


@pytest.mark.requirement("T-08")
async def test_a_foreign_document_is_charged_only_to_the_tenant() -> None:
    async with running(
        FOREIGN, retrieval_window_url=LOCAL, mock_mode=False, rate_limit_calls=1
    ) as service:
        arguments = {"doc_id": "foreign", "anchor_chunk_id": "p1-c1"}
        assert [await service.code(WINDOW, arguments) for _ in range(3)] == ["ACCESS_DENIED"] * 3


async def test_hidden_foreign_documents_are_not_found() -> None:
    async with running(
        FOREIGN, retrieval_window_url=LOCAL, mock_mode=False, hide_foreign_documents=True
    ) as service:
        arguments = {"doc_id": "foreign", "anchor_chunk_id": "p1-c1"}
        assert await service.code(WINDOW, arguments) == "DOCUMENT_NOT_FOUND"


@pytest.mark.requirement("T-02")
async def test_a_local_window_over_the_radius_is_refused() -> None:
    async with running(LONG, retrieval_window_url=LOCAL) as service:
        arguments = {"doc_id": "long", "anchor_chunk_id": "p1-c1", "radius": 3}
        assert await service.code(WINDOW, arguments) == "WINDOW_TOO_LARGE"


async def test_a_replaced_document_returns_its_new_chunks() -> None:
    async with running(LONG, retrieval_window_url=LOCAL) as service:
        arguments = {"doc_id": "long", "anchor_chunk_id": "p1-c1"}
        await service.result(WINDOW, arguments)
        service.gateway.repository.hold(make_document(doc_id="long", pages=["New text."]))
        assert (await service.result(WINDOW, arguments))["chunks"][0]["text"] == "New text."


async def test_local_windows_are_not_a_readiness_check() -> None:
    async with running(retrieval_window_url=LOCAL) as service:
        assert "retrieval" not in (await service.get(READY))["checks"]


@pytest.mark.requirement("T-03")
@pytest.mark.parametrize(
    ("url", "configured"), [(None, False), (LOCAL, True), ("http://retrieval/window", True)]
)
async def test_lists_have_chunk_windows_only_if_they_can_be_read(
    url: str | None, *, configured: bool
) -> None:
    async with running(retrieval_window_url=url) as service:
        tools = (await service.get(TOOLS, tenant_id="tenant_1", user_id="u"))["tools"]
        described = {tool["name"]: tool["description"] for tool in tools}
        assert (WINDOW in described) is configured
        assert (WINDOW in described["doc_local_search"]) is configured
        listed = await service.result("list_available_tools")
        assert (WINDOW in listed["tools"], WINDOW in listed["not_configured"]) == (
            configured,
            not configured,
        )
        arguments = {"doc_id": "doc_1", "anchor_chunk_id": "p1-c1"}
        code = await service.code(WINDOW, arguments)
        assert (code == "RETRIEVAL_NOT_CONFIGURED") is not configured
