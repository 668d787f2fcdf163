from collections.abc import Mapping

import httpx

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_store import Key, Reading, StoredVectors, Wanted
from mcp_tools_proxy.documents.embeddings.embeddings_client import EmbeddingsClient
from mcp_tools_proxy.documents.embeddings.meaning_search import MeaningSearch
from mcp_tools_proxy.documents.versions import head_of
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.tables import each_row

DOCUMENT = make_document()
HEAD = head_of(DOCUMENT)


class OneVector:
    """Holds the vector of each document's only chunk."""

    async def read(self, key: Key, version: str, model: str) -> StoredVectors | None:
        return StoredVectors(version=version, model=model, dimension=1, data=b"\x00\x3c")  # 1.0

    async def write(self, key: Key, vectors: StoredVectors) -> None:
        raise AssertionError("there are vectors")


class Service:
    """Answers with ``status``."""

    def __init__(self) -> None:
        self.status = 200

    def __call__(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(self.status, json={"data": [{"embedding": [2]}]})


class Searching:
    def __init__(self) -> None:
        self.service = Service()
        client = EmbeddingsClient(
            url="http://embeddings.internal.test/v1/embeddings",
            api_key=None,
            model="m",
            batch=2,
            timeout_s=BOUND_S,
            query_timeout_s=BOUND_S,
            metrics=Metrics(),
            transport=httpx.MockTransport(self.service),
        )
        self._meaning = MeaningSearch(
            client, self._read, OneVector(), min_similarity=0.3, metrics=Metrics()
        )

    async def similar(self, query: str) -> Mapping[int, float]:
        found = CachedDocument(Reading(head=HEAD, document=DOCUMENT))
        return await self._meaning.similar(found, 1, query, lambda _found, _size: None)

    async def _read(self, _key: Key, _wanted: Wanted) -> Reading | None:
        raise AssertionError("there are vectors")


@each_row("status", [400, 413, 422])
async def test_a_refused_query_does_not_block_other_queries(status: int) -> None:
    searching = Searching()
    searching.service.status = status
    assert await searching.similar("a query of too many tokens") == {}
    searching.service.status = 200
    assert await searching.similar("another") == {0: 1.0}


async def test_a_failing_service_is_not_called_for_a_while() -> None:
    searching = Searching()
    searching.service.status = 429
    assert await searching.similar("a query") == {}
    searching.service.status = 200
    assert await searching.similar("another") == {}
