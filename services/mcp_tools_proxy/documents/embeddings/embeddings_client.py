"""Client of an embeddings service compatible with OpenAI's ``/embeddings``.

Responses are validated and converted to vectors of length 1.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

import httpx
import numpy as np
import structlog
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from pydantic_core import from_json

from mcp_tools_proxy.documents.service_http import (
    BadAnswer,
    ServiceHttp,
    certificate_problem,
    read_body,
)
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.system.failure_reasons import connection_reason
from mcp_tools_proxy.telemetry.metrics import Metrics

URL_VARIABLE = "MCP_PROXY_EMBEDDINGS_URL"

MAX_TEXT_CHARS = 8_000
"""Maximum characters sent per text; only chunks from a document's file can be longer."""

MAX_REQUESTS = 16
"""Parallel requests; a search that waits past its deadline continues without vectors."""

_REFUSALS = (400, 413, 422)
"""Statuses that mean the service would refuse the same texts again."""

MAX_DIMENSION = 4_096
"""Maximum length of a vector; 5,000 chunks then take 40 MB in the store."""

Vectors = NDArray[np.float32]
"""Vectors as rows, or a single vector."""

Purpose = Literal["query", "document"]

log = structlog.get_logger()


class EmbeddingsFailed(Exception):
    """No vectors were returned; ``reason`` is one line without any of the texts.

    ``is_refusal``: the service refuses these texts, so a retry is useless.
    """

    def __init__(self, reason: str, *, is_refusal: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_refusal = is_refusal


class EmbeddingsClient:
    """Requests vectors of texts; sends only the texts and the model.

    ``timeout_s`` bounds a request for chunks, ``query_timeout_s`` one for a query, each in total.
    ``transport`` replaces the network (tests). Raises ValueError for a ``url`` that is not http or
    https.
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
        self._http = ServiceHttp(
            url, variable=URL_VARIABLE, token=api_key, transport=transport, most=MAX_REQUESTS
        )
        self._timeouts: dict[Purpose, float] = {"query": query_timeout_s, "document": timeout_s}
        self._failing: set[Purpose] = set()
        """Purposes whose last request failed, to log a failure once."""
        self._metrics = metrics
        for purpose in self._timeouts:  # create the time series, so that rates start at 0
            for outcome in ("ok", "failed"):
                metrics.embeddings_requests.labels(purpose, outcome)
            metrics.embeddings_seconds.labels(purpose)

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
        await self._http.aclose()

    async def _embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        timeout_s = self._timeouts[purpose]
        sent = [text[:MAX_TEXT_CHARS] for text in texts]
        body: dict[str, object] = {"model": self.model, "input": sent}
        read = partial(_read, max_bytes=max_answer_bytes(len(texts)))
        with self._http.span(), self._metrics.embeddings_seconds.labels(purpose).time():
            try:
                answer = await self._http.post(body, read, timeout_s=timeout_s)
                vectors = await _vectors_of(answer, len(texts))
            except TimeoutError:
                failure = EmbeddingsFailed(f"did not finish within {timeout_s:g} s")
            except httpx.HTTPError as error:
                failure = _connection_failure(error)
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


async def _read(response: httpx.Response, max_bytes: int) -> bytes:
    """Return the body of a 200 response. Raises BadAnswer, EmbeddingsFailed."""
    status = response.status_code
    if status != 200:  # the body could quote the texts, so it is not read
        raise EmbeddingsFailed(
            f"answered with HTTP status {status}", is_refusal=status in _REFUSALS
        )
    return await read_body(response, max_bytes)


def _connection_failure(error: httpx.HTTPError) -> EmbeddingsFailed:
    if (problem := certificate_problem(error)) is not None:
        return EmbeddingsFailed(f"is not trusted: {problem}")
    known = connection_reason(error)
    return EmbeddingsFailed(
        f"could not be reached, or its answer was cut off{f': {known}' if known else ''}"
    )


async def _vectors_of(body: bytes, count: int) -> Vectors:
    """Parse a response; one with several texts takes milliseconds, so it uses a thread."""
    if count == 1:
        return read_vectors(body, count)
    return await asyncio.to_thread(read_vectors, body, count)


class _Item(BaseModel, strict=True):
    embedding: Annotated[list[float], Field(min_length=1, max_length=MAX_DIMENSION)]
    index: int | None = None


class _Answer(BaseModel, strict=True):
    data: list[_Item]


def max_answer_bytes(count: int) -> int:
    """Return the maximum response size for ``count`` texts: 40 bytes per number."""
    return 65_536 + count * MAX_DIMENSION * 40


def read_vectors(body: bytes, count: int) -> Vectors:
    """Return the vectors of ``count`` texts in their order. Raises BadAnswer."""
    try:
        items = _Answer.model_validate(from_json(body, allow_inf_nan=False)).data
    except (ValueError, RecursionError) as error:
        raise BadAnswer("sent an answer that is not valid") from error
    if len(items) != count:
        raise BadAnswer(f"sent {len(items)} vectors for {count} texts")
    if any(item.index is not None for item in items):
        items.sort(key=lambda item: -1 if item.index is None else item.index)
        if [item.index for item in items] != list(range(count)):
            raise BadAnswer("sent vectors whose indexes are not those of the texts")
    if len({len(item.embedding) for item in items}) > 1:
        raise BadAnswer("sent vectors of several lengths")
    return _normalized(np.array([item.embedding for item in items], np.float64))


def _normalized(rows: NDArray[np.float64]) -> Vectors:
    """Return the rows scaled to length 1; zero rows stay. Raises BadAnswer."""
    with np.errstate(over="ignore"):
        lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    if not np.isfinite(lengths).all():
        raise BadAnswer("sent a vector that is not finite")
    lengths[lengths == 0] = 1
    vectors: Vectors = (rows / lengths).astype(np.float32)
    return vectors
