"""A stub of an embeddings service on loopback: vectors are bags of concepts."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.support.web_app import serving_app

DIMENSION = 64

CONCEPTS = {
    "refund": "money-back",
    "reimbursement": "money-back",
    "compensation": "money-back",
    "purchaser": "customer",
    "customer": "customer",
    "client": "customer",
    "automobile": "car",
    "car": "car",
    "vehicle": "car",
}
"""Words with the same meaning; other words only mean themselves."""

Answer = Callable[[web.Request, "EmbeddingsService"], Awaitable[web.StreamResponse]]


def concepts_of(text: str) -> Sequence[str]:
    words = re.findall(r"\w{3,}", text.lower())
    return [CONCEPTS.get(word, word) for word in words]


def vector_of(text: str, dimension: int = DIMENSION) -> list[float]:
    """Return the bag of a text's concepts, each at the index of its hash."""
    vector = [0.0] * dimension
    for concept in concepts_of(text):
        digest = hashlib.sha256(concept.encode()).digest()
        vector[int.from_bytes(digest[:4], "big") % dimension] += 1.0 if digest[4] % 2 else -1.0
    return vector


class EmbeddingsService:
    """Counts requests; ``answer`` can be replaced."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Answer = answer_well
        self.dimension = DIMENSION

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request["input"]]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.headers.append(dict(request.headers))
        return await self.answer(request, self)


async def answer_well(request: web.Request, service: EmbeddingsService) -> web.StreamResponse:
    texts = (await request.json())["input"]
    items = [
        {"object": "embedding", "index": n, "embedding": vector_of(text, service.dimension)}
        for n, text in enumerate(texts)
    ]
    return web.json_response({"object": "list", "data": items[::-1]})


def answer_with(body: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    async def answer(_request: web.Request, _service: EmbeddingsService) -> web.StreamResponse:
        return web.Response(body=body.encode(), status=status, headers=headers)

    return answer


async def never_answer(_request: web.Request, _service: EmbeddingsService) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("it waits until the connection ends")


async def answer_endlessly(request: web.Request, _service: EmbeddingsService) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"data": [')
    while True:
        await response.write(b" " * 65_536)


@asynccontextmanager
async def running_embeddings() -> AsyncIterator[EmbeddingsService]:
    service = EmbeddingsService()
    app = web.Application()
    app.router.add_post("/v1/embeddings", service.handle)
    async with serving_app(app, cancels=True) as url:
        service.url = f"{url}/v1/embeddings"
        yield service
