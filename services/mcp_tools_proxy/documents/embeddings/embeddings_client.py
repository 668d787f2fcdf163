"""The client of an embeddings service: any that is compatible with OpenAI's ``/embeddings``."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Literal

import anyio
import httpx
import structlog

from mcp_tools_proxy.documents.embeddings.embedding_answers import (
    Vectors,
    max_answer_bytes,
    read_vectors,
)
from mcp_tools_proxy.documents.service_http import (
    BadAnswer,
    certificate_problem,
    headers_of,
    open_transport,
    parse_url,
    read_body,
    request_extensions,
    send,
    within,
)
from mcp_tools_proxy.domain.kept_errors import without_frames
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.spans import (
    DEFAULT_PORTS,
    Attributes,
    child_span,
    set_on_span,
)
from mcp_tools_proxy.web_client.failure_reasons import connection_reason

URL_VARIABLE = "MCP_PROXY_EMBEDDINGS_URL"

MAX_TEXT_CHARS = 8_000
"""Most characters of a text that are sent; only a document's own chunks have more."""

MAX_REQUESTS = 16
"""Requests at once; a search whose deadline ends while it waits for its turn goes on without."""

_REFUSALS = (400, 413, 422)
"""What a service answers to texts that it would answer so each time."""

Purpose = Literal["query", "document"]

log = structlog.get_logger()


class EmbeddingsFailed(Exception):
    """There are no vectors; ``reason`` is one line without any of the texts.

    ``is_refusal`` is whether the service refuses these texts, so that it is no use to try again.
    """

    def __init__(self, reason: str, *, is_refusal: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_refusal = is_refusal


class EmbeddingsClient:
    """Requests vectors of texts; sends the texts and the model, and nothing of whose they are.

    ``timeout_s`` bounds one request for chunks, ``query_timeout_s`` that for a query, each in
    total. ``transport`` replaces the network (tests). Raises ValueError for a ``url`` that is not
    http or https.
    """

    def __init__(
        self,
        *,
        url: str,
        api_key: str | None,
        model: str,
        batch: int,
        timeout_s: float,
        query_timeout_s: float,
        metrics: Metrics,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.model = model
        self.batch = batch
        self._url = parse_url(url, URL_VARIABLE)
        self._headers = headers_of(api_key)
        self._attributes: Attributes = {
            "http.request.method": "POST",
            "server.address": self._url.host,
            "server.port": self._url.port or DEFAULT_PORTS[self._url.scheme],
        }
        self._timeouts: dict[Purpose, float] = {"query": query_timeout_s, "document": timeout_s}
        self._failing: set[Purpose] = set()
        """The purposes whose last request failed: that is logged once."""
        self._metrics = metrics
        for purpose in self._timeouts:  # a rate has a begin
            for outcome in ("ok", "failed"):
                metrics.embeddings_requests.labels(purpose, outcome)
            metrics.embeddings_seconds.labels(purpose)
        self._transport = transport or open_transport(self._url.scheme)
        self._slots = anyio.Semaphore(MAX_REQUESTS)

    def __repr__(self) -> str:
        return f"<EmbeddingsClient {self.model!r}>"

    async def embed_query(self, text: str) -> Vectors:
        """Return the vector of a query. Raises EmbeddingsFailed."""
        rows: Vectors = (await self._embed([text], "query"))[0]
        return rows

    async def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of at most ``batch`` texts, as rows. Raises EmbeddingsFailed."""
        return await self._embed(texts, "document")

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def _embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        timeout_s = self._timeouts[purpose]
        sent = [text[:MAX_TEXT_CHARS] for text in texts]
        body: dict[str, object] = {"model": self.model, "input": sent}
        with (
            child_span("POST", self._attributes, is_client=True),
            self._metrics.embeddings_seconds.labels(purpose).time(),
        ):
            try:
                answer = await within(timeout_s, lambda: self._answer(body, len(texts)))
                vectors = await _read(answer, len(texts))
            except TimeoutError:
                failure = EmbeddingsFailed(f"did not finish within {timeout_s:g} s")
            except BadAnswer as error:
                failure = EmbeddingsFailed(error.reason)
            except EmbeddingsFailed as error:
                failure = without_frames(error)
            else:
                self._note_success(purpose)
                return vectors
        self._note_failure(purpose, failure)
        try:
            raise failure
        finally:
            del failure  # its traceback refers to this frame

    async def _answer(self, body: dict[str, object], count: int) -> bytes:
        """Return the body of a 200 answer. Raises BadAnswer, EmbeddingsFailed."""
        request = httpx.Request(
            "POST",
            self._url,
            headers=self._headers,
            json=body,
            extensions=request_extensions(self._url),
        )
        try:
            async with self._slots, aclosing(await send(self._transport, request)) as response:
                status = response.status_code
                set_on_span({"http.response.status_code": status})
                if status != 200:  # its text may quote what was sent, and is not read
                    raise EmbeddingsFailed(
                        f"answered with HTTP status {status}", is_refusal=status in _REFUSALS
                    )
                return await read_body(response, max_answer_bytes(count))
        except httpx.HTTPError as error:
            problem = certificate_problem(error)
            known = connection_reason(error)
            reason = (
                f"could not be reached, or its answer was cut off{f': {known}' if known else ''}"
            )
            raise EmbeddingsFailed(f"is not trusted: {problem}" if problem else reason) from error

    def _note_success(self, purpose: Purpose) -> None:
        self._metrics.embeddings_requests.labels(purpose, "ok").inc()
        if purpose in self._failing:
            self._failing.discard(purpose)
            log.info("embeddings.recovered", purpose=purpose)

    def _note_failure(self, purpose: Purpose, failure: EmbeddingsFailed) -> None:
        self._metrics.embeddings_requests.labels(purpose, "failed").inc()
        if purpose not in self._failing:
            self._failing.add(purpose)
            log.warning("embeddings.failed", purpose=purpose, reason=failure.reason)


async def _read(body: bytes, count: int) -> Vectors:
    """Read an answer: that for many texts, which takes some milliseconds, in a thread."""
    if count == 1:
        return read_vectors(body, count)
    return await asyncio.to_thread(read_vectors, body, count)
