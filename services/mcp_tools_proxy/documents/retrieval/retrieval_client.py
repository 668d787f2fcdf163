"""The client of the Retrieval Service (contract T-03)."""

from contextlib import aclosing
from typing import Literal

import anyio
import httpx
import structlog

from mcp_tools_proxy.documents.retrieval.answers import (
    WantedWindow,
    no_such_chunk,
    read_chunks,
    unavailable,
)
from mcp_tools_proxy.documents.service_http import (
    CONNECTIONS,
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
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import RetrievedChunk
from mcp_tools_proxy.domain.errors import (
    AccessDenied,
    InvalidArguments,
    ProxyError,
    RetrievalUnavailable,
)
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.spans import (
    DEFAULT_PORTS,
    Attributes,
    child_span,
    outgoing_context,
    set_on_span,
)
from mcp_tools_proxy.web_client.failure_reasons import connection_reason
from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable


def failure_reason(error: RetrievalUnavailable) -> str:
    """Return why the service cannot be used, for operators."""
    cause = error.__cause__
    known = None if cause is None else connection_reason(cause)
    return known or error.message.removeprefix("the Retrieval Service ").partition(";")[0]


MAX_BODY_BYTES = 8 * 1024 * 1024
"""A larger response is not read to its end (T-03)."""

URL_VARIABLE = "MCP_PROXY_RETRIEVAL_WINDOW_URL"

_EXCERPT_CHARS = 200  # of the text of a 400 response, in the log (T-03)

LastCall = Literal["unknown", "ok", "failed"]

log = structlog.get_logger()


class RetrievalClient:
    """Reads chunk windows over one pool of keep-alive connections.

    With ``send_caller`` the service is told the user and the roles, so that it can check rights.
    ``timeout_s`` bounds one call in total: the wait for a connection, the retry and the body.
    ``transport`` replaces the network (tests). The environment's proxies are not used, cookies not
    stored, redirects not followed. Raises ValueError for a ``url`` that is not http or https.
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
        self._url = parse_url(url, URL_VARIABLE)
        self._token = token
        self._headers = headers_of(token)
        self._attributes: Attributes = {
            "http.request.method": "POST",
            "server.address": self._url.host,
            "server.port": self._url.port or DEFAULT_PORTS[self._url.scheme],
        }
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._hide_foreign_documents = hide_foreign_documents
        self._send_caller = send_caller
        self._transport = transport or open_transport(self._url.scheme)
        self._slots = anyio.Semaphore(CONNECTIONS)
        self._last_call: LastCall = "unknown"
        self.failure: str | None = None
        """Why the last call failed, for operators; None if it did not."""

    def __repr__(self) -> str:
        return f"<RetrievalClient last_call={self._last_call}>"

    @property
    def last_call(self) -> LastCall:
        """Result of the last finished call; a refusal by Retrieval is "ok", because it serves."""
        return self._last_call

    async def window(
        self,
        *,
        caller: Caller,
        doc_id: str,
        anchor_chunk_id: str,
        before: int,
        after: int,
        trace_id: str,
    ) -> tuple[RetrievedChunk, ...]:
        """Read the anchor with ``before`` and ``after`` chunks around it, in reading order.

        There are fewer at the document's edges. Raises ChunkNotFound, InvalidArguments,
        AccessDenied, RetrievalUnavailable (T-03). A cancelled call returns its connection to the
        pool, and is counted in the metric of seconds only.
        """
        wanted = WantedWindow(
            tenant_id=caller.tenant_id,
            doc_id=doc_id,
            anchor_chunk_id=anchor_chunk_id,
            before=before,
            after=after,
            trace_id=trace_id,
        )
        body = {
            "tenant_id": caller.tenant_id,
            "doc_id": doc_id,
            "anchor_chunk_id": anchor_chunk_id,
            "window_before": before,
            "window_after": after,
            "trace_id": trace_id,
        }
        if self._send_caller:
            body |= {"user_id": caller.user_id, "roles": caller.roles}
        with (
            child_span("POST", self._attributes, is_client=True),
            self._metrics.retrieval_seconds.time(),
        ):
            headers = {**self._headers, "X-Trace-Id": trace_id, **outgoing_context({})}
            request = httpx.Request(
                "POST",
                self._url,
                headers=headers,
                json=body,
                extensions=request_extensions(self._url),
            )
            try:
                chunks = read_chunks(await self._exchange(request, wanted), wanted)
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
        await self._transport.aclose()

    async def _exchange(self, request: httpx.Request, wanted: WantedWindow) -> bytes:
        """Return the body of a 200 response within the deadline."""
        try:
            return await within(self._timeout_s, lambda: self._answer(request, wanted))
        except TimeoutError as error:
            raise unavailable(f"did not finish within {self._timeout_s:g} s") from error
        except BadAnswer as error:
            raise unavailable(error.reason) from error

    async def _answer(self, request: httpx.Request, wanted: WantedWindow) -> bytes:
        try:
            async with self._slots, aclosing(await send(self._transport, request)) as response:
                set_on_span({"http.response.status_code": response.status_code})
                match response.status_code:
                    case 200:
                        return await read_body(response, MAX_BODY_BYTES)
                    case 400:
                        raise self._refusal(await read_body(response, MAX_BODY_BYTES), wanted)
                    case 403 if self._hide_foreign_documents:
                        raise no_such_chunk(wanted)
                    case 403:
                        raise AccessDenied(
                            "the user has no access to this document; do not try again: use a "
                            "doc_id that belongs to the user, or tell the user"
                        )
                    case 404:
                        raise no_such_chunk(wanted)
                    case status:
                        raise unavailable(f"answered with HTTP status {status}")
        except httpx.HTTPError as error:
            if (problem := certificate_problem(error)) is not None:
                log.warning("retrieval.untrusted", trace_id=wanted.trace_id, reason=problem)
            raise unavailable("could not be reached, or its answer was cut off") from error

    def _refusal(self, body: bytes, wanted: WantedWindow) -> InvalidArguments:
        """Log the text of a 400 response, which may quote anything; return an error without it."""
        if self._token:
            body = body.replace(self._token.encode(), b"***")
        excerpt = body[: 4 * _EXCERPT_CHARS].decode(errors="replace")[:_EXCERPT_CHARS]
        log.warning(
            "retrieval.refused",
            trace_id=wanted.trace_id,
            tenant_id=wanted.tenant_id[:QUOTE_CHARS],
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
