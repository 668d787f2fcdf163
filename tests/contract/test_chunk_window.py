"""The gateway's client and the reference Retrieval Service agree on T-03."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from mcp_tools_proxy.documents.chunk_windows import WantedWindow
from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.documents.layout import chunks_of
from mcp_tools_proxy.documents.retrieval_client import RetrievalClient
from mcp_tools_proxy.documents.versions import version_of
from mcp_tools_proxy.domain.document import Chunk, Document, RetrievedChunk
from mcp_tools_proxy.domain.errors import (
    AccessDenied,
    ChunkNotFound,
    InvalidArguments,
    RetrievalUnavailable,
)
from mcp_tools_proxy.telemetry.metrics import Metrics
from retrieval_service.app import WINDOW_PATH, RetrievalSettings, create_app
from tests.support.bounds import BOUND_S
from tests.support.builders import make_caller

pytestmark = pytest.mark.requirement("T-03")

PAGES = (
    "Первая страница. " * 150,
    "A sentence of the second page. " * 100,
    "",
    "Short.",
    "\n\n".join(["A paragraph of the last page, " * 20] * 5),
)
CUT = Document(
    tenant_id="acme",
    doc_id="Guide №1/a",
    title="Guide",
    pages=PAGES,
    ocr=(None, 87, None, None, None),
)
OWN = Document(
    tenant_id="acme",
    doc_id="own",
    title="With chunks of its own",
    pages=PAGES,
    own_chunks=tuple(
        Chunk(
            chunk_id=f"ключ:{index}",
            page=index + 1,
            chunk_index=index,
            source=text,
            start=0,
            end=len(text),
        )
        for index, text in enumerate(("one", "", "three"))
    ),
)


@asynccontextmanager
async def gateway(
    folder: Path, *, sent: str | None = "s3cret", expected: str | None = "s3cret"
) -> AsyncIterator[RetrievalClient]:
    """Serve both documents from ``folder`` to a client that sends the token ``sent``."""
    for document in (CUT, OWN):
        write_document(folder, document, replace=False)
    app = create_app(
        RetrievalSettings.model_validate({"documents_path": folder, "token": expected})
    )
    client = RetrievalClient(
        url=f"http://retrieval.test{WINDOW_PATH}",
        token=sent,
        timeout_s=BOUND_S,
        metrics=Metrics(),
        transport=httpx.ASGITransport(app),
    )
    async with asyncio.timeout(BOUND_S), app.router.lifespan_context(app):
        yield client
        await client.aclose()


async def find(
    client: RetrievalClient,
    document: Document = CUT,
    *,
    anchor: str = "p1-c1",
    tenant: str = "acme",
    before: int = 0,
    after: int = 0,
) -> tuple[RetrievedChunk, ...]:
    return await client.window(
        WantedWindow(
            caller=make_caller(tenant_id=tenant),
            doc_id=document.doc_id,
            anchor_chunk_id=anchor,
            before=before,
            after=after,
            trace_id="trace-1",
        )
    )


def as_retrieved(chunk: Chunk, document: Document = CUT) -> RetrievedChunk:
    """Return the expected response; OWN's chunk texts differ from those of its pages."""
    is_cut = document is CUT
    return RetrievedChunk(
        chunk_id=chunk.chunk_id,
        page=chunk.page,
        chunk_index=chunk.chunk_index,
        text=chunk.text,
        start_char=chunk.start if is_cut else None,
        end_char=chunk.end if is_cut else None,
        version=version_of(document),
        ocr=87 if is_cut and chunk.page == 2 else None,
    )


@pytest.mark.parametrize("document", [CUT, OWN], ids=["cut from pages", "own chunks"])
async def test_every_chunk_the_gateway_knows_is_an_anchor(
    tmp_path: Path, document: Document
) -> None:
    chunks = chunks_of(document)
    assert len(chunks) > 1
    async with gateway(tmp_path) as client:
        windows = [await find(client, document, anchor=chunk.chunk_id) for chunk in chunks]
    assert windows == [(as_retrieved(chunk, document),) for chunk in chunks]


@pytest.mark.parametrize("document", [CUT, OWN], ids=["cut from pages", "own chunks"])
async def test_a_wide_window_has_all_chunks_the_gateway_knows(
    tmp_path: Path, document: Document
) -> None:
    chunks = chunks_of(document)
    async with gateway(tmp_path) as client:
        window = await find(client, document, anchor=chunks[0].chunk_id, after=50)
    assert window == tuple(as_retrieved(chunk, document) for chunk in chunks)


async def test_a_window_in_the_middle_has_both_sides(tmp_path: Path) -> None:
    chunks = chunks_of(CUT)
    async with gateway(tmp_path) as client:
        window = await find(client, anchor=chunks[3].chunk_id, before=2, after=1)
    assert window == tuple(as_retrieved(chunk) for chunk in chunks[1:5])


async def test_an_unknown_chunk_is_not_found(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        with pytest.raises(ChunkNotFound):
            await find(client, anchor="p99-c1")


async def test_another_tenants_document_is_denied(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        with pytest.raises(AccessDenied):
            await find(client, tenant="other")


async def test_a_window_over_the_services_limit_is_refused_with_our_message(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        with pytest.raises(InvalidArguments, match="fewer chunks"):
            await find(client, after=101)


@pytest.mark.parametrize("sent", [None, "wrong"])
async def test_a_wrong_token_makes_the_service_unavailable(
    tmp_path: Path, sent: str | None
) -> None:
    async with gateway(tmp_path, sent=sent) as client:
        with pytest.raises(RetrievalUnavailable):
            await find(client)


async def test_a_service_without_a_token_accepts_every_token(tmp_path: Path) -> None:
    async with gateway(tmp_path, expected=None) as client:
        assert await find(client)
