import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import httpx

from mcp_tools_proxy.documents.chunk_windows import WantedWindow
from mcp_tools_proxy.documents.retrieval_client import RetrievalClient
from mcp_tools_proxy.domain.document import RetrievedChunk
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import BOUND_S
from tests.support.builders import make_caller

URL = "http://retrieval.internal.test/window"
TOKEN = "s3cret-token"

Handler = Callable[[httpx.Request], httpx.Response]


def chunk(index: int, **changes: object) -> dict[str, object]:
    entry = {"chunk_id": f"c{index}", "page": 1, "chunk_index": index, "text": f"text {index}"}
    return {**entry, **changes}


def answer(*chunks: object, status: int = 200, **extra: object) -> Handler:
    return lambda _: httpx.Response(status, json={"chunks": list(chunks), **extra})


def raw(content: bytes, status: int = 200) -> Handler:
    return lambda _: httpx.Response(status, content=content)


def failing(error: type[httpx.HTTPError]) -> Handler:
    def fail(_: httpx.Request) -> httpx.Response:
        raise error(f"cannot reach {URL} with {TOKEN}")

    return fail


def in_turn(*handlers: Handler) -> Handler:
    """Answer each request with the next handler."""
    left: Iterator[Handler] = iter(handlers)

    def answer_next(request: httpx.Request) -> httpx.Response:
        handler = next(left)
        return handler(request)

    return answer_next


def client_of(
    handler: Handler, *, token: str | None = TOKEN, metrics: Metrics | None = None
) -> RetrievalClient:
    return RetrievalClient(
        url=URL,
        token=token,
        timeout_s=BOUND_S,
        metrics=metrics or Metrics(),
        transport=httpx.MockTransport(handler),
    )


async def fetch_window(
    client: RetrievalClient, *, anchor: str = "c1", before: int = 1, after: int = 1
) -> tuple[RetrievedChunk, ...]:
    async with asyncio.timeout(BOUND_S):
        return await client.window(
            WantedWindow(
                caller=make_caller(),
                doc_id="doc_1",
                anchor_chunk_id=anchor,
                before=before,
                after=after,
                trace_id="trace-7",
            )
        )


class Parts(httpx.AsyncByteStream):
    """A body in parts; an exception among them is raised when its turn comes."""

    def __init__(self, *parts: bytes | Exception) -> None:
        self.parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            yield part
