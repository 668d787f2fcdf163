"""The Retrieval client with scripted responses: all branches of T-03 that need no socket."""

import asyncio
import json
from collections.abc import Iterator

import httpx
import pytest

from mcp_tools_proxy.app.optional import UnconfiguredRetrieval
from mcp_tools_proxy.documents.retrieval_client import RetrievalClient
from mcp_tools_proxy.domain.document import RetrievedChunk
from mcp_tools_proxy.domain.errors import (
    AccessDenied,
    ChunkNotFound,
    RetrievalNotConfigured,
    RetrievalUnavailable,
)
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.tables import each_row
from tests.unit.documents.retrieval_answers import (
    TOKEN,
    URL,
    Handler,
    Parts,
    answer,
    chunk,
    client_of,
    failing,
    fetch_window,
    in_turn,
    raw,
)

pytestmark = pytest.mark.requirement("T-03")


async def sent_by(token: str | None) -> httpx.Request:
    seen: list[httpx.Request] = []

    def record(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer(chunk(1))(request)

    await fetch_window(client_of(record, token=token), before=2, after=0)
    return seen[0]


async def test_the_request_contains_tenant_document_anchor_sides_and_trace() -> None:
    assert json.loads((await sent_by(None)).content) == {
        "tenant_id": "tenant_1",
        "doc_id": "doc_1",
        "anchor_chunk_id": "c1",
        "window_before": 2,
        "window_after": 0,
        "trace_id": "trace-7",
    }


async def test_the_request_is_a_post_to_the_configured_url() -> None:
    request = await sent_by(None)
    assert (request.method, str(request.url)) == ("POST", URL)


async def test_the_token_is_sent_as_a_bearer_token() -> None:
    assert (await sent_by(TOKEN)).headers["Authorization"] == f"Bearer {TOKEN}"


async def test_without_a_token_the_authorization_header_is_not_sent() -> None:
    assert "Authorization" not in (await sent_by(None)).headers


async def test_the_trace_id_is_also_sent_as_a_header() -> None:
    assert (await sent_by(None)).headers["X-Trace-Id"] == "trace-7"


async def test_a_window_returns_the_chunks() -> None:
    chunks = await fetch_window(client_of(answer(chunk(1, page=3, text="Привет"))))
    assert chunks == (RetrievedChunk(chunk_id="c1", page=3, chunk_index=1, text="Привет"),)


async def test_chunks_are_returned_in_index_order() -> None:
    chunks = await fetch_window(client_of(answer(chunk(2), chunk(0), chunk(1))))
    assert [found.chunk_index for found in chunks] == [0, 1, 2]


async def test_unknown_keys_of_an_answer_are_ignored() -> None:
    assert await fetch_window(client_of(answer(chunk(1, score=0.5), took_ms=3)))


async def test_without_a_url_reading_a_window_fails() -> None:
    with pytest.raises(RetrievalNotConfigured, match="retrieval_window_url is not set"):
        await UnconfiguredRetrieval().window(None)


class ClosingTransport(httpx.MockTransport):
    closed = False

    async def aclose(self) -> None:
        self.closed = True


async def test_closing_the_client_closes_its_connections() -> None:
    transport = ClosingTransport(answer(chunk(1)))
    client = RetrievalClient(
        url=URL, token=None, timeout_s=1, metrics=Metrics(), transport=transport
    )
    assert not transport.closed
    await client.aclose()
    assert transport.closed


@each_row("handler", [raw(b"nope", 404), answer()], ids=["404", "no chunks"])
async def test_an_unknown_chunk_is_not_found(handler: Handler) -> None:
    with pytest.raises(ChunkNotFound):
        await fetch_window(client_of(handler))


async def test_a_403_becomes_access_denied() -> None:
    with pytest.raises(AccessDenied):
        await fetch_window(client_of(raw(b"", 403)))


@each_row("status", [201, 204, 301, 302, 307, 401, 405, 409, 418, 429, 500, 503])
async def test_any_other_status_is_unavailable(status: int) -> None:
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(answer(chunk(1), status=status)))


async def test_a_redirect_is_not_followed() -> None:
    moved = httpx.Response(307, headers={"Location": "http://elsewhere.test/"})
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(in_turn(lambda _: moved)))


@each_row(
    "error", [httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError]
)
async def test_a_connection_error_is_retried_once(error: type[httpx.HTTPError]) -> None:
    assert await fetch_window(client_of(in_turn(failing(error), answer(chunk(1)))))


async def test_a_second_connection_error_is_unavailable() -> None:
    broken = failing(httpx.ConnectError)
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(in_turn(broken, broken)))


async def test_an_error_status_is_not_retried() -> None:
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(in_turn(raw(b"", 503))))


async def test_an_interrupted_answer_is_not_retried() -> None:
    body = Parts(b'{"chunks"', httpx.ReadError("reset"))
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(in_turn(lambda _: httpx.Response(200, stream=body))))


def transport_errors(base: type[httpx.HTTPError]) -> Iterator[type[httpx.HTTPError]]:
    for error in base.__subclasses__():
        if error is not httpx.HTTPStatusError:
            yield error
            yield from transport_errors(error)


@pytest.mark.parametrize("error", [*transport_errors(httpx.HTTPError)], ids=lambda e: e.__name__)
async def test_httpx_errors_do_not_leak(error: type[httpx.HTTPError]) -> None:
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(failing(error)))


@each_row(
    "handler",
    [failing(httpx.ConnectError), raw(f"{URL} {TOKEN}".encode(), 500), raw(URL.encode())],
    ids=["broken", "500", "bad json"],
)
async def test_messages_never_contain_address_token_or_remote_text(handler: Handler) -> None:
    with pytest.raises(RetrievalUnavailable) as caught:
        await fetch_window(client_of(handler))
    assert not any(word in caught.value.message for word in ("internal.test", TOKEN, "http://"))


@each_row(
    ("handler", "code"),
    [
        (answer(chunk(1)), "OK"),
        (raw(b"", 404), "CHUNK_NOT_FOUND"),
        (raw(b"", 400), "INVALID_ARGUMENTS"),
        (raw(b"", 403), "ACCESS_DENIED"),
        (raw(b"", 500), "RETRIEVAL_UNAVAILABLE"),
        (raw(b"{}"), "RETRIEVAL_UNAVAILABLE"),
    ],
    ids=["window", "404", "400", "403", "500", "bad shape"],
)
async def test_a_request_is_counted_by_its_code(handler: Handler, code: str) -> None:
    metrics = Metrics()
    await asyncio.gather(fetch_window(client_of(handler, metrics=metrics)), return_exceptions=True)
    counted = metrics.registry.get_sample_value(
        "mcp_proxy_retrieval_requests_total", {"code": code}
    )
    assert counted == 1


async def test_a_request_is_timed_even_when_it_fails() -> None:
    metrics = Metrics()
    await asyncio.gather(
        fetch_window(client_of(raw(b"", 500), metrics=metrics)), return_exceptions=True
    )
    assert metrics.registry.get_sample_value("mcp_proxy_retrieval_seconds_count") == 1


def test_before_the_first_call_the_state_is_unknown() -> None:
    assert client_of(answer()).last_call == "unknown"


@each_row(("status", "state"), [(404, "ok"), (400, "ok"), (403, "ok"), (500, "failed")])
async def test_the_last_call_counts_as_failed_only_if_retrieval_failed(
    status: int, state: str
) -> None:
    client = client_of(raw(b"", status))
    await asyncio.gather(fetch_window(client), return_exceptions=True)
    assert client.last_call == state


async def test_the_state_is_ok_after_a_successful_call() -> None:
    client = client_of(in_turn(raw(b"", 500), answer(chunk(1))))
    await asyncio.gather(fetch_window(client), return_exceptions=True)
    await fetch_window(client)
    assert client.last_call == "ok"


def test_the_state_of_the_client_is_reported() -> None:
    assert repr(client_of(answer())) == "<RetrievalClient last_call=unknown>"


BAD_URLS = ["", "x", "ftp://h/", "http://", "http://h:x/", "http://h:99999/", f"http://{'a' * 70}/"]


@each_row("url", BAD_URLS)
def test_an_invalid_url_is_refused_at_startup(url: str) -> None:
    with pytest.raises(ValueError, match="MCP_PROXY_RETRIEVAL_WINDOW_URL"):
        RetrievalClient(url=url, token=None, timeout_s=1, metrics=Metrics())
