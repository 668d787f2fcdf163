import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from pydantic_core import from_json

from mcp_tools_proxy.documents.document_store import Key, Reading, StoredVectors, Wanted
from mcp_tools_proxy.documents.embeddings.document_vectors import DocumentVectors
from mcp_tools_proxy.documents.embeddings.embeddings_client import (
    MAX_TEXT_CHARS,
    EmbeddingsClient,
    EmbeddingsFailed,
)
from mcp_tools_proxy.documents.embeddings.vector_maker import (
    MAX_CHUNKS,
    MAX_WAITING,
    VectorMaker,
    make_vectors,
)
from mcp_tools_proxy.documents.versions import head_of
from mcp_tools_proxy.domain.document import Chunk, Document
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import BOUND_S, until
from tests.support.builders import make_document


class Service:
    """Answers with vectors of two numbers; the first is the length of the text."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.status = 200

    def __call__(self, request: httpx.Request) -> httpx.Response:
        texts = from_json(request.content)["input"]
        self.batches.append(texts)
        data = [{"embedding": [len(text), 1]} for text in texts]
        return httpx.Response(self.status, json={"data": data})


def client_of(service: Service, *, batch: int = 2) -> EmbeddingsClient:
    return EmbeddingsClient(
        url="http://embeddings.internal.test/v1/embeddings",
        api_key=None,
        model="m",
        batch=batch,
        timeout_s=BOUND_S,
        query_timeout_s=BOUND_S,
        metrics=Metrics(),
        transport=httpx.MockTransport(service),
    )


def chunk(index: int, text: str) -> Chunk:
    return Chunk(
        chunk_id=f"c{index}", page=1, chunk_index=index, source=text, start=0, end=len(text)
    )


def with_chunks(*texts: str) -> Document:
    chunks = tuple(chunk(index, text) for index, text in enumerate(texts))
    return make_document(pages=("x",), own_chunks=chunks)


async def test_a_blank_chunk_is_not_sent_and_gets_a_zero_vector() -> None:
    service = Service()
    made = await make_vectors(client_of(service), with_chunks("a", " \n", "ccc", "d"), "v")

    assert made is not None
    assert (made.count, made.dimension, made.version, made.model) == (4, 2, "v", "m")
    assert service.batches == [["a", "ccc"], ["d"]]
    loaded = DocumentVectors.load(made)
    (query,) = (await client_of(Service()).embed_texts(["ccc"]),)
    similar = loaded.similar(query[0], 0.0, 10)
    assert next(iter(similar)) == 2
    assert similar[2] == pytest.approx(1, abs=1e-3)
    assert similar[1] == 0


async def test_a_document_without_text_is_not_sent() -> None:
    service = Service()

    assert await make_vectors(client_of(service), with_chunks(" "), "v") is None
    assert service.batches == []


async def test_the_text_sent_per_document_is_bounded() -> None:
    service = Service()
    texts = ["x" * (MAX_TEXT_CHARS + 9), *("y" for _ in range(MAX_CHUNKS))]
    made = await make_vectors(client_of(service, batch=256), with_chunks(*texts), "v")

    assert made is not None
    assert made.count == MAX_CHUNKS == sum(map(len, service.batches))
    assert {len(text) for batch in service.batches for text in batch} == {1, MAX_TEXT_CHARS}


class Vectors:
    def __init__(self) -> None:
        self.written: dict[Key, StoredVectors] = {}

    async def read(self, key: Key, version: str, model: str) -> StoredVectors | None:
        found = self.written.get(key)
        return found if found and (found.version, found.model) == (version, model) else None

    async def write(self, key: Key, vectors: StoredVectors) -> None:
        self.written[key] = vectors


class Background:
    """A running maker over documents whose pages are the parts of their id."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.vectors = Vectors()
        self.pauses: list[float] = []
        self.may_go_on = asyncio.Event()
        self.maker = VectorMaker(
            client_of(service), self.read, self.vectors, metrics=Metrics(), sleep=self.pause
        )

    async def read(self, key: Key, _wanted: Wanted) -> Reading | None:
        if key[1] == "gone":
            return None
        pages = tuple(key[1].split("+"))
        document = make_document(tenant_id=key[0], doc_id=key[1], pages=pages)
        return Reading(head=head_of(document), document=document)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self.may_go_on.wait()


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[Background]:
    background = Background(service)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(background.maker.run())
        yield background
        task.cancel()


async def test_documents_are_processed_one_at_a_time() -> None:
    service = Service()
    async with running(service) as background:
        for doc_id in ("one", "gone", "two", "one"):
            background.maker.request(("acme", doc_id))
        await until(lambda: len(background.vectors.written) == 2, "both have vectors")

    assert service.batches == [["one"], ["two"]]


async def test_a_document_with_vectors_is_sent_again_only_on_request() -> None:
    service = Service()
    async with running(service) as background:
        background.maker.request(("acme", "one"))
        await until(lambda: background.vectors.written, "it has vectors")
        background.maker.request(("acme", "one"))
        background.maker.request(("acme", "two"))
        await until(lambda: len(background.vectors.written) == 2, "both have vectors")
        assert service.batches == [["one"], ["two"]]
        background.maker.request(("acme", "one"), anew=True)
        await until(lambda: len(service.batches) == 3, "it was sent again")


async def test_after_a_failure_the_maker_pauses_and_requeues_the_document() -> None:
    service = Service()
    service.status = 500
    async with running(service) as background:
        background.maker.request(("acme", "one"))
        background.maker.request(("acme", "two"))
        await until(lambda: background.pauses, "it failed")
        assert service.batches == [["one"]]
        assert background.vectors.written == {}
        service.status = 200
        background.may_go_on.set()
        await until(lambda: len(background.vectors.written) == 2, "both have vectors")

    assert service.batches == [["one"], ["two"], ["one"]]


async def test_a_document_resumes_after_a_busy_service_interrupted_it() -> None:
    class Busy(Service):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            self.status = 429 if len(self.batches) in (1, 2, 4) else 200
            return super().__call__(request)

    service = Busy()
    async with running(service) as background:
        background.may_go_on.set()
        background.maker.request(("acme", "a+bb+ccc+dd+e"))
        background.maker.request(("acme", "two"))
        await until(lambda: len(background.vectors.written) == 2, "both have vectors")

    refused = ["ccc", "dd"]
    assert service.batches == [["a", "bb"], refused, refused, ["two"], refused, refused, ["e"]]
    assert background.vectors.written["acme", "a+bb+ccc+dd+e"].count == 5


async def test_a_refused_version_is_not_requested_again() -> None:
    service = Service()
    service.status = 422
    async with running(service) as background:
        background.maker.request(("acme", "one"))
        version = head_of(make_document(doc_id="one", pages=("one",))).version
        refused = (("acme", "one"), version)
        await until(lambda: len(background.maker._waiting) == 0, "it was refused")
        assert background.maker.is_expected(*refused)
        assert not background.maker.is_expected(("acme", "one"), "another version")

    assert background.pauses == []


async def test_the_queue_of_documents_is_bounded() -> None:
    background = Background(Service())
    for number in range(MAX_WAITING + 5):
        background.maker.request(("acme", str(number)))

    assert background.maker.is_expected(("acme", str(MAX_WAITING - 1)), "v")
    assert not background.maker.is_expected(("acme", str(MAX_WAITING)), "v")


async def test_vectors_of_different_lengths_are_refused() -> None:
    class Growing(Service):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            super().__call__(request)
            data = [{"embedding": [1] * len(self.batches)}] * len(self.batches[-1])
            return httpx.Response(200, json={"data": data})

    with pytest.raises(EmbeddingsFailed, match="several lengths"):
        await make_vectors(client_of(Growing()), with_chunks("a", "b", "c"), "v")
