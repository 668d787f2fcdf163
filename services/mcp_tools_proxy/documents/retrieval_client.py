"""Client of the Retrieval Service; validates its responses (contract T-03)."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

import httpx
import structlog
from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import from_json

from mcp_tools_proxy.documents.chunk_windows import WantedWindow, place_of_anchor
from mcp_tools_proxy.documents.service_http import (
    BadAnswer,
    ServiceHttp,
    certificate_problem,
    read_body,
)
from mcp_tools_proxy.domain.document import RetrievedChunk
from mcp_tools_proxy.domain.errors import (
    AccessDenied,
    ChunkNotFound,
    InvalidArguments,
    ProxyError,
    RetrievalUnavailable,
)
from mcp_tools_proxy.system.failure_reasons import connection_reason
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.spans import outgoing_context
from mcp_tools_proxy.wire.identifiers import id_of
from mcp_tools_proxy.wire.strict_json import check_count, has_structure_over, whole_number
from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable, quote


def failure_reason(error: RetrievalUnavailable) -> str:
    """Return the reason for a failure, for operators."""
    cause = error.__cause__
    known = None if cause is None else connection_reason(cause)
    return known or error.message.removeprefix("the Retrieval Service ").partition(";")[0]


MAX_BODY_BYTES = 8 * 1024 * 1024
"""Larger responses are rejected (T-03)."""

URL_VARIABLE = "MCP_PROXY_RETRIEVAL_WINDOW_URL"

_EXCERPT_CHARS = 200  # of the text of a 400 response, in the log (T-03)

LastCall = Literal["unknown", "ok", "failed"]

log = structlog.get_logger()


class RetrievalClient:
    """Reads chunk windows from a Retrieval Service.

    ``send_caller`` sends the user and roles for access checks. ``timeout_s`` bounds a call in
    total. ``transport`` replaces the network (tests). Raises ValueError for a ``url`` that is not
    http or https.
    """

    def __init__(
        self,
        *,
        url: str,
        token: str | None,
        timeout_s: float,
        metrics: Metrics,
        hide_foreign_documents: bool = False,
        send_caller: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = ServiceHttp(url, variable=URL_VARIABLE, token=token, transport=transport)
        self._token = token
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._hide_foreign_documents = hide_foreign_documents
        self._send_caller = send_caller
        self._last_call: LastCall = "unknown"
        self.failure: str | None = None
        """Reason of the last call's failure, for operators; None if it succeeded."""

    def __repr__(self) -> str:
        return f"<RetrievalClient last_call={self._last_call}>"

    @property
    def last_call(self) -> LastCall:
        """Result of the last finished call; "ok" includes refusals by Retrieval."""
        return self._last_call

    async def window(self, wanted: WantedWindow) -> tuple[RetrievedChunk, ...]:
        """Return the window (Retrieval).

        Raises ChunkNotFound, InvalidArguments, AccessDenied, RetrievalUnavailable (T-03). A
        cancelled call returns its connection to the pool and counts only in the duration metric.
        """
        caller, trace_id = wanted.caller, wanted.trace_id
        body: dict[str, object] = {
            "tenant_id": caller.tenant_id,
            "doc_id": wanted.doc_id,
            "anchor_chunk_id": wanted.anchor_chunk_id,
            "window_before": wanted.before,
            "window_after": wanted.after,
            "trace_id": trace_id,
        }
        if self._send_caller:
            body |= {"user_id": caller.user_id, "roles": caller.roles}
        with self._http.span(), self._metrics.retrieval_seconds.time():
            headers = {"X-Trace-Id": trace_id, **outgoing_context({})}
            try:
                chunks = read_chunks(await self._exchange(body, headers, wanted), wanted)
            except ProxyError as error:
                self._record(error.code)
                if isinstance(error, RetrievalUnavailable):
                    self.failure = failure_reason(error)
                    log.warning("retrieval.failed", trace_id=trace_id, reason=str(error))
                raise
        self._record("OK")
        return chunks

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def _exchange(
        self, body: Mapping[str, object], headers: Mapping[str, str], wanted: WantedWindow
    ) -> bytes:
        read = partial(self._read, wanted)
        try:
            return await self._http.post(body, read, timeout_s=self._timeout_s, headers=headers)
        except TimeoutError as error:
            raise unavailable(f"did not finish within {self._timeout_s:g} s") from error
        except BadAnswer as error:
            raise unavailable(error.reason) from error
        except httpx.HTTPError as error:
            if (problem := certificate_problem(error)) is not None:
                log.warning("retrieval.untrusted", trace_id=wanted.trace_id, reason=problem)
            raise unavailable("could not be reached, or its answer was cut off") from error

    async def _read(self, wanted: WantedWindow, response: httpx.Response) -> bytes:
        match response.status_code:
            case 200:
                return await read_body(response, MAX_BODY_BYTES)
            case 400:
                raise self._refusal(await read_body(response, MAX_BODY_BYTES), wanted)
            case 403 if self._hide_foreign_documents:
                raise no_such_chunk(wanted)
            case 403:
                raise AccessDenied(
                    "the user has no access to this document; do not try again: use a doc_id that "
                    "belongs to the user, or tell the user"
                )
            case 404:
                raise no_such_chunk(wanted)
            case status:
                raise unavailable(f"answered with HTTP status {status}")

    def _refusal(self, body: bytes, wanted: WantedWindow) -> InvalidArguments:
        """Log the text of a 400 response, which can quote anything; return an error without it."""
        if self._token:
            body = body.replace(self._token.encode(), b"***")
        excerpt = body[: 4 * _EXCERPT_CHARS].decode(errors="replace")[:_EXCERPT_CHARS]
        log.warning(
            "retrieval.refused",
            trace_id=wanted.trace_id,
            tenant_id=wanted.caller.tenant_id[:QUOTE_CHARS],
            doc_id=wanted.doc_id[:QUOTE_CHARS],
            answer=printable(excerpt),
        )
        return InvalidArguments(
            "the Retrieval Service refused the doc_id, the anchor_chunk_id or the size of the "
            "window; take the ids from doc_local_search, or ask for fewer chunks"
        )

    def _record(self, code: str) -> None:
        self.failure = None
        self._last_call = "failed" if code == RetrievalUnavailable.code else "ok"
        self._metrics.retrieval_requests.labels(code).inc()


def _null_is_empty(value: object) -> object:
    return "" if value is None else value


MAX_VALUES = 20_000
"""JSON values of a response: parsing 600,000 keys stalled all calls for 0.4 s."""

_VERSION_CHARS = 256

_MAX_STRUCTURE_BYTES = 1024 * 1024
"""Far above the largest window; parsed JSON takes up to 24 times as much memory."""

_DIGITS = re.compile(r"[0-9]{1,10}")


def _number(value: object) -> object:
    """Convert 3.0 and "3" to 3: chunk stores keep numbers as floats or text."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    return whole_number(value)


_Place = Annotated[Annotated[int, Field(ge=0, lt=2**31)] | None, BeforeValidator(_number)]

_Percent = Annotated[Annotated[int, Field(ge=0, le=100)] | None, BeforeValidator(_number)]


class _ChunkBody(BaseModel, strict=True):
    chunk_id: Annotated[str, Field(min_length=1), BeforeValidator(id_of)]
    page: _Place = None
    chunk_index: _Place = None
    start_char: _Place = None
    end_char: _Place = None
    version: Annotated[str, Field(max_length=_VERSION_CHARS)] | None = None
    ocr: _Percent = None
    columns: str | None = None
    text: Annotated[str, BeforeValidator(_null_is_empty)] = ""


class _WindowBody(BaseModel, strict=True):
    chunks: list[_ChunkBody]


def read_chunks(body: bytes, wanted: WantedWindow) -> tuple[RetrievedChunk, ...]:
    """Parse the body of a 200 response; return the requested chunks in reading order.

    The order is that of ``chunk_index`` if every chunk has one, otherwise that of the response.
    Chunks beyond the requested sides are dropped. Raises ChunkNotFound, RetrievalUnavailable.
    """
    if has_structure_over(body, _MAX_STRUCTURE_BYTES):
        raise unavailable(f"sent more than {_MAX_STRUCTURE_BYTES} bytes of JSON besides texts")
    try:
        check_count(body, MAX_VALUES)
        answer = _WindowBody.model_validate(from_json(body, allow_inf_nan=False))
    except ValueError as error:  # from parsing or validation
        raise unavailable("sent an answer that is not valid") from error
    if not answer.chunks:
        raise no_such_chunk(wanted)
    if len({chunk.chunk_id for chunk in answer.chunks}) < len(answer.chunks):
        raise unavailable("sent a chunk twice")
    chunks = _in_reading_order([RetrievedChunk(**chunk.model_dump()) for chunk in answer.chunks])
    anchor = place_of_anchor(chunks, wanted.doc_id, wanted.anchor_chunk_id)
    if anchor is None:
        raise unavailable("sent a window without its anchor")
    if len(chunks) <= wanted.before + wanted.after + 1 and not _have_index(chunks):
        return chunks  # the order is unknown, so no chunk is known to be beyond a side
    return chunks[max(anchor - wanted.before, 0) : anchor + wanted.after + 1]


def _in_reading_order(chunks: list[RetrievedChunk]) -> tuple[RetrievedChunk, ...]:
    if not _have_index(chunks):
        return tuple(chunks)
    return tuple(sorted(chunks, key=lambda chunk: chunk.chunk_index or 0))


def _have_index(chunks: Sequence[RetrievedChunk]) -> bool:
    return all(chunk.chunk_index is not None for chunk in chunks)


def no_such_chunk(wanted: WantedWindow) -> ChunkNotFound:
    """Return the error for an unknown chunk or document."""
    return ChunkNotFound(
        f"document {quote(wanted.doc_id)} has no chunk {quote(wanted.anchor_chunk_id)}; take a "
        "chunk_id from doc_local_search"
    )


def unavailable(reason: str) -> RetrievalUnavailable:
    """Return the error for a missing or invalid response."""
    return RetrievalUnavailable(
        f"the Retrieval Service {reason}; try again later, or tell the user"
    )
