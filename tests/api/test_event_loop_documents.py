"""Uploads and reads of large documents do not block the event loop."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from mcp_tools_proxy.documents.document_file import MAX_FOREIGN_ITEMS, MAX_FOREIGN_TEXT_BYTES
from tests.api.document_operator import CONTENT, NEW, Operator, operated, outcome
from tests.support.gil_holds import measured_holds
from tests.support.loop_turns import measured_anew

BIG = {"tenant_id": "acme", "doc_id": "big"}
JSON = {"Content-Type": "application/json"}
WORDS = "some words of a page, and a bit more of them. "


def document(**more: Any) -> dict[str, Any]:
    return {**BIG, "title": "Big", "pages": ["a page"], **more}


def sections(count: int) -> list[dict[str, object]]:
    return [
        {"section_id": f"s{n}", "title": f"Section {n}", "page_start": 1, "page_end": 1}
        for n in range(count)
    ]


def chunks(count: int, text: str = "a chunk") -> list[dict[str, object]]:
    return [{"chunk_id": f"c{n}", "page": 1, "text": text} for n in range(count)]


def with_keys(count: int) -> dict[str, Any]:
    return document(**{f"key{n}": n for n in range(count)})


LARGEST: Mapping[str, Callable[[], dict[str, Any]]] = {
    "unknown keys": lambda: with_keys(199_000),
    "unknown keys in an object": lambda: document(more={f"k{n}": 0 for n in range(70_000)}),
    "lists in a list": lambda: document(more=[[0]] * 99_000),
    "sections": lambda: document(sections=sections(39_000)),
    "chunks": lambda: document(chunks=chunks(49_000)),
    "pages": lambda: document(pages=["a page"] * 199_000),
    "large pages": lambda: document(pages=[WORDS * 22_000] * 40),
    "escapes": lambda: document(pages=["\n" * 8_000] * 2_500),
    "all of them": lambda: document(pages=[WORDS * 90] * 8_000, chunks=chunks(24_000, WORDS * 20)),
}
"""Documents just below the limits."""

OVER: Mapping[str, Callable[[], dict[str, Any]]] = {
    "unknown keys": lambda: with_keys(400_000),
    "sections": lambda: document(sections=sections(80_000)),
    "chunks": lambda: document(chunks=chunks(100_000)),
    "pages": lambda: document(pages=[""] * 400_000),
    "lists in a list": lambda: document(more=[[0]] * 200_000),
}
"""Documents with twice the maximum number of values."""


IN_EACH_RUN = ("large pages", "unknown keys")
"""One text and one of many values for each kind; ``make test-full`` stores and refuses all."""


def in_each_run(names: Iterable[str]) -> Sequence[Any]:
    marks = pytest.mark.full
    return [it if it in IN_EACH_RUN else pytest.param(it, marks=marks) for it in names]


async def put(operator: Operator, content: bytes) -> tuple[int, str | None]:
    return outcome(await operator.send("PUT", CONTENT, BIG, content, **JSON, **NEW))


async def remove(operator: Operator) -> None:
    await operator.send("DELETE", CONTENT, BIG, **{"If-Match": "*"})


@pytest.mark.parametrize("name", in_each_run(LARGEST))
async def test_a_large_document_is_stored_and_read_without_blocking(name: str) -> None:
    made = LARGEST[name]()
    content = json.dumps(made).encode()
    known = {key: made[key] for key in made.keys() & {"title", "pages", "sections", "chunks"}}
    async with operated() as operator:

        async def store_and_read() -> tuple[None, float]:
            await remove(operator)
            with measured_holds() as holds:
                stored = await put(operator, content)
                read = await operator.send("GET", CONTENT, BIG)
            assert stored == (201, None)
            assert {key: read.json()[key] for key in known} == known
            return None, holds.longest

        await measured_anew(store_and_read)


@pytest.mark.parametrize("name", in_each_run(OVER))
async def test_a_document_with_too_many_values_is_refused_without_blocking(name: str) -> None:
    content = json.dumps(OVER[name]()).encode()
    async with operated() as operator:

        async def upload_refused() -> tuple[None, float]:
            with measured_holds() as holds:
                refused = await operator.send("PUT", CONTENT, BIG, content, **JSON, **NEW)
            assert outcome(refused) == (422, "INVALID_REQUEST")
            assert str(MAX_FOREIGN_ITEMS) in refused.json()["error"]["message"]
            return None, holds.longest

        await measured_anew(upload_refused)
        assert (await operator.send("GET", CONTENT, BIG)).status_code == 404


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(document(pages=["x" * 2_000_000]), id="page"),
        pytest.param(document(chunks=chunks(1, "\n" * 600_000)), id="chunk"),
        pytest.param(document(more={"deep": [["x" * 500_000]] * 3}), id="unknown key"),
        pytest.param(document(title="x" * 20_000_000), id="title"),
    ],
)
async def test_a_text_over_the_limit_is_refused(made: dict[str, Any]) -> None:
    async with operated() as operator:
        content = json.dumps(made).encode()
        refused = await operator.send("PUT", CONTENT, BIG, content, **JSON, **NEW)
        assert outcome(refused) == (422, "INVALID_REQUEST")
        assert str(MAX_FOREIGN_TEXT_BYTES) in refused.json()["error"]["message"]
        assert (await operator.send("GET", CONTENT, BIG)).status_code == 404


async def test_a_document_with_the_maximum_number_of_values_is_stored() -> None:
    most = with_keys(MAX_FOREIGN_ITEMS - 6)  # the object, its four members, and the page
    one_more = {**most, "another": 0}
    async with operated() as operator:
        codes = [await put(operator, json.dumps(it).encode()) for it in (one_more, most)]
    assert codes == [(422, "INVALID_REQUEST"), (201, None)]


MARKDOWN = "\n\n".join(f"# Section {n}\n\nA text." for n in range(20_000)).encode()
TEXT = b"\f".join(b"a page %d" % n for n in range(150_000))
FILES = {"markdown": ("text/markdown", MARKDOWN), "text": ("text/plain", TEXT)}


@pytest.mark.parametrize("kind", ["text", pytest.param("markdown", marks=pytest.mark.full)])
async def test_a_large_import_result_is_accepted_without_blocking(kind: str) -> None:
    media_type, content = FILES[kind]
    async with operated() as operator:

        async def import_file() -> tuple[None, float]:
            await remove(operator)
            with measured_holds() as holds:
                stored = await operator.send(
                    "PUT", CONTENT, BIG, content, **{"Content-Type": media_type, **NEW}
                )
            assert outcome(stored) == (201, None)
            return None, holds.longest

        await measured_anew(import_file)
