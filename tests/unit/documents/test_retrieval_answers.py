"""Validation of the Retrieval Service's responses (T-03)."""

import gzip
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from mcp_tools_proxy.documents.retrieval_client import MAX_BODY_BYTES
from mcp_tools_proxy.domain.document import RetrievedChunk
from mcp_tools_proxy.domain.errors import RetrievalUnavailable
from tests.support.tables import each_row
from tests.unit.documents.retrieval_answers import (
    Parts,
    answer,
    chunk,
    client_of,
    fetch_window,
    raw,
)

pytestmark = pytest.mark.requirement("T-03")


BAD_BODIES = {
    "nothing": b"",
    "cut off": b'{"chunks": [',
    "html": b"<html></html>",
    "not utf-8": b'{"chunks": "\xff"}',
    "NaN": b'{"chunks": [{"chunk_id":"c1","page":1,"chunk_index":1,"text":""}], "x": NaN}',
    "lone surrogate": b'{"chunks":[{"chunk_id":"c1","page":1,"chunk_index":1,"text":"\\ud800"}]}',
    "very deep": b'{"chunks":' + b"[" * 100_000,
    "a list": b"[]",
    "no chunks key": b"{}",
    "chunks null": b'{"chunks": null}',
    "chunks an object": b'{"chunks": {}}',
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_an_answer_that_is_not_the_agreed_json_is_unavailable(body: bytes) -> None:
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(raw(body)))


@each_row(
    "change",
    [
        {"chunk_id": True},
        {"chunk_id": 1.0},
        {"chunk_id": ""},
        {"page": "one"},
        {"page": "-1"},
        {"page": "9" * 11},
        {"page": True},
        {"page": 1.5},
        {"page": 1e300},
        {"page": -1.0},
        {"page": 10**400},
        {"chunk_index": -1},
        {"chunk_index": "1.0"},
        {"chunk_index": False},
        {"text": ["a"]},
        {"ocr": 101},
        {"ocr": -1},
        {"ocr": "101"},
        {"ocr": True},
    ],
)
async def test_a_chunk_of_the_wrong_type_is_unavailable(change: dict[str, object]) -> None:
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(answer(chunk(0), chunk(1) | change)), anchor="c0")


async def test_a_chunk_without_an_id_is_unavailable() -> None:
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(answer({"chunk_index": 1, "page": 1, "text": ""})))


@each_row(
    ("sent", "page", "chunk_index", "text"),
    [
        ({}, None, None, ""),
        ({"page": None, "chunk_index": None, "text": None}, None, None, ""),
        ({"page": 3.0, "chunk_index": 0.0, "text": "a"}, 3, 0, "a"),
        ({"page": 1e3, "text": "a"}, 1000, None, "a"),
        ({"chunk_index": -0.0}, None, 0, ""),
        ({"page": "3", "chunk_index": "0"}, 3, 0, ""),
        ({"page": "007", "chunk_index": 12.0}, 7, 12, ""),
    ],
)
async def test_missing_fields_of_a_chunk_are_omitted_and_whole_floats_become_integers(
    sent: dict[str, object], page: int | None, chunk_index: int | None, text: str
) -> None:
    (read,) = await fetch_window(client_of(answer({"chunk_id": "c1"} | sent)))
    assert read == RetrievedChunk(chunk_id="c1", page=page, chunk_index=chunk_index, text=text)
    assert type(read.page) is type(page)


async def test_chunks_are_ordered_by_their_index() -> None:
    read = await fetch_window(client_of(answer(chunk(2), chunk(0), chunk(1, chunk_index=1.0))))
    assert [part.chunk_id for part in read] == ["c0", "c1", "c2"]


async def test_if_one_chunk_lacks_an_index_the_original_order_is_kept() -> None:
    read = await fetch_window(client_of(answer(chunk(2), chunk(0, chunk_index=None), chunk(1))))
    assert [part.chunk_id for part in read] == ["c2", "c0", "c1"]


@each_row(
    ("before", "after", "kept"),
    [
        (0, 0, ["c5"]),
        (1, 2, ["c4", "c5", "c6", "c7"]),
        (0, 3, ["c5", "c6", "c7", "c8"]),
        (9, 1, [f"c{n}" for n in range(7)]),
    ],
)
@each_row("order", [1, -1])
async def test_chunks_beyond_the_requested_sides_are_dropped(
    before: int, after: int, kept: list[str], order: int
) -> None:
    sent = [chunk(n) for n in range(10)][::order]
    read = await fetch_window(client_of(answer(*sent)), anchor="c5", before=before, after=after)
    assert [part.chunk_id for part in read] == kept


async def test_without_an_index_chunks_are_counted_in_the_original_order() -> None:
    sent = [chunk(n, chunk_index=None) for n in (7, 5, 6, 8)]
    read = await fetch_window(client_of(answer(*sent)), anchor="c5", before=0, after=1)
    assert [part.chunk_id for part in read] == ["c5", "c6"]


@each_row(
    ("anchor", "sent"),
    [("c1", "doc_1:c1"), ("doc_1:c1", "c1"), ("doc_1:c1", "doc_1:doc_1:c1"), ("1", 1)],
)
async def test_an_anchor_can_be_prefixed_with_the_document_id(anchor: str, sent: object) -> None:
    parts = answer(chunk(0), chunk(1, chunk_id=sent), chunk(2), chunk(3))
    read = await fetch_window(client_of(parts), anchor=anchor, before=1, after=1)
    assert [part.chunk_id for part in read] == ["c0", str(sent), "c2"]


async def test_the_exact_spelling_of_an_anchor_has_precedence() -> None:
    parts = answer(chunk(0, chunk_id="doc_1:c1"), chunk(1), chunk(2))
    read = await fetch_window(client_of(parts), anchor="c1", before=0, after=0)
    assert [part.chunk_id for part in read] == ["c1"]


@each_row("sent", ["doc_2:c1", "doc_1:c12", "doc_1/c1", "C1"])
async def test_another_id_is_not_the_anchor(sent: str) -> None:
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(answer(chunk(0), chunk(1, chunk_id=sent))))


async def test_a_window_without_its_anchor_is_unavailable() -> None:
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(answer(chunk(0), chunk(2))))


async def test_a_duplicate_chunk_is_unavailable() -> None:
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(answer(chunk(1), chunk(1, chunk_index=2))))


GOOD = json.dumps({"chunks": [chunk(1)]}).encode()


class Endless(httpx.AsyncByteStream):
    """An endless body that counts the bytes read."""

    def __init__(self) -> None:
        self.read = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.read += 65536
            yield b" " * 65536

    async def aclose(self) -> None:
        self.closed = True


async def endless_answer(status: int = 200) -> Endless:
    body = Endless()
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(lambda _: httpx.Response(status, stream=body)))
    return body


async def test_reading_stops_at_8_mib() -> None:
    assert (await endless_answer()).read == MAX_BODY_BYTES + 65536


async def test_reading_a_refusal_stops_at_8_mib() -> None:
    assert (await endless_answer(400)).read == MAX_BODY_BYTES + 65536


async def test_an_oversized_answer_is_closed() -> None:
    assert (await endless_answer()).closed


async def test_an_answer_of_exactly_8_mib_is_read() -> None:
    assert await fetch_window(client_of(raw(GOOD.ljust(MAX_BODY_BYTES))))


@each_row("content", [GOOD, b" " * (MAX_BODY_BYTES + 1)], ids=["good", "bomb"])
async def test_a_compressed_answer_is_refused(content: bytes) -> None:
    body = Parts(gzip.compress(content))
    response = httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=body)
    with pytest.raises(RetrievalUnavailable):
        await fetch_window(client_of(lambda _: response))
