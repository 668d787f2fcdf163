"""Promises of the reference Retrieval Service's README, over ASGI."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from mcp_tools_proxy.documents.document_file import document_path, dump_document, write_document
from mcp_tools_proxy.domain.document import Document
from retrieval_service.app import (
    MAX_REQUEST_BYTES,
    WINDOW_PATH,
    RetrievalSettings,
    SettingsError,
    create_app,
    load_settings,
)
from tests.support.bounds import BOUND_S

SEED = {"tenant_id": "tenant_1", "doc_id": "doc_1", "anchor_chunk_id": "p3-c1"}


@asynccontextmanager
async def serving(settings: RetrievalSettings) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(settings)
    transport = httpx.ASGITransport(app)
    async with (
        asyncio.timeout(BOUND_S),
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://retrieval.test") as client,
    ):
        yield client


async def post(
    body: object, *, settings: RetrievalSettings | None = None, token: str | None = None
) -> httpx.Response:
    headers = {} if token is None else {"Authorization": token}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with serving(settings or RetrievalSettings()) as client:
        return await client.post(WINDOW_PATH, content=content, headers=headers)


def code_of(response: httpx.Response) -> str:
    error = response.json()["error"]
    assert set(error) == {"code", "message"}
    return str(error["code"])


async def test_a_window_is_returned_in_order() -> None:
    response = await post({**SEED, "window_before": 1, "window_after": 1})
    assert [chunk["chunk_id"] for chunk in response.json()["chunks"]] == ["p2-c3", "p3-c1", "p3-c2"]


async def test_a_chunk_has_id_text_and_position() -> None:
    (chunk,) = (await post(SEED)).json()["chunks"]
    assert {name: type(value) for name, value in chunk.items()} == {
        "chunk_id": str,
        "page": int,
        "chunk_index": int,
        "text": str,
        "start_char": int,
        "end_char": int,
        "version": str,
        "ocr": type(None),
        "columns": type(None),
    }


@pytest.mark.requirement("T-02")
async def test_a_window_at_the_edge_of_a_document_has_fewer_chunks() -> None:
    response = await post({**SEED, "anchor_chunk_id": "p1-c1", "window_before": 5})
    assert len(response.json()["chunks"]) == 1


async def test_unknown_keys_of_a_request_are_ignored() -> None:
    assert (await post({**SEED, "mood": "good", "trace_id": "t-1"})).status_code == 200


async def test_health_is_ok() -> None:
    async with serving(RetrievalSettings()) as client:
        assert (await client.get("/health")).json() == {"status": "ok"}


@pytest.mark.parametrize(
    "change",
    [
        {"tenant_id": ""},
        {"doc_id": "a\nb"},
        {"doc_id": "d" * 257},
        {"anchor_chunk_id": None},
        {"anchor_chunk_id": 7},
        {"window_before": -1},
        {"window_after": "1"},
        {"window_after": 1.5},
        {"window_before": True},
        {"window_before": 100, "window_after": 1},
    ],
    ids=str,
)
async def test_an_invalid_value_is_a_bad_request(change: dict[str, object]) -> None:
    response = await post({**SEED, **change})
    assert (response.status_code, code_of(response)) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff", b" " * (MAX_REQUEST_BYTES + 1)], ids=range(5)
)
async def test_an_invalid_body_is_a_bad_request(body: bytes) -> None:
    response = await post(body)
    assert (response.status_code, code_of(response)) == (400, "INVALID_REQUEST")


async def test_the_largest_allowed_window_is_returned() -> None:
    response = await post({**SEED, "window_before": 50, "window_after": 50})
    assert response.status_code == 200


async def test_the_largest_window_is_configurable() -> None:
    settings = RetrievalSettings(max_window=1)
    assert (await post({**SEED, "window_after": 1}, settings=settings)).status_code == 400


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"doc_id": "doc_9"}, "DOCUMENT_NOT_FOUND"),
        ({"anchor_chunk_id": "p99-c1"}, "CHUNK_NOT_FOUND"),
    ],
    ids=["document", "chunk"],
)
async def test_a_missing_document_or_chunk_is_a_404(change: dict[str, object], code: str) -> None:
    response = await post({**SEED, **change})
    assert (response.status_code, code_of(response)) == (404, code)


async def test_a_document_of_other_tenants_only_is_a_403() -> None:
    response = await post({**SEED, "tenant_id": "tenant_2"})
    assert (response.status_code, code_of(response)) == (403, "ACCESS_DENIED")


@pytest.mark.parametrize("given", [None, "Bearer wrong", "s3cret", "Bearer ", "Basic s3cret"])
async def test_a_wrong_or_missing_token_is_refused(given: str | None) -> None:
    response = await post(SEED, settings=RetrievalSettings(token="s3cret"), token=given)
    assert (response.status_code, code_of(response)) == (401, "UNAUTHENTICATED")


async def test_the_token_is_checked_before_the_body() -> None:
    response = await post(b"{", settings=RetrievalSettings(token="s3cret"))
    assert response.status_code == 401


async def test_the_correct_token_is_accepted() -> None:
    response = await post(SEED, settings=RetrievalSettings(token="s3cret"), token="Bearer s3cret")
    assert response.status_code == 200


async def test_an_unknown_path_is_a_404_in_json() -> None:
    async with serving(RetrievalSettings()) as client:
        assert code_of(await client.get("/nowhere")) == "NOT_FOUND"


async def test_another_method_is_a_405_in_json() -> None:
    async with serving(RetrievalSettings()) as client:
        assert code_of(await client.get(WINDOW_PATH)) == "METHOD_NOT_ALLOWED"


async def test_a_document_of_the_folder_is_served(tmp_path: Path) -> None:
    document = Document(tenant_id="acme", doc_id="guide", title="Guide", pages=("Hello.",))
    write_document(tmp_path, document, replace=False)
    response = await post(
        {"tenant_id": "acme", "doc_id": "guide", "anchor_chunk_id": "p1-c1"},
        settings=RetrievalSettings(documents_path=tmp_path),
    )
    assert response.json()["chunks"][0]["text"] == "Hello."


@pytest.mark.requirement("T-05")
async def test_a_file_in_the_folder_of_another_tenant_is_not_served(tmp_path: Path) -> None:
    foreign = Document(tenant_id="t", doc_id="d", title="Forged", pages=("forged",))
    place = document_path(tmp_path, "mallory", "d")
    place.parent.mkdir()
    place.write_bytes(dump_document(foreign))
    response = await post(
        {"tenant_id": "t", "doc_id": "d", "anchor_chunk_id": "p1-c1"},
        settings=RetrievalSettings(documents_path=tmp_path),
    )
    assert (response.status_code, code_of(response)) == (404, "DOCUMENT_NOT_FOUND")


async def test_without_mock_mode_the_seed_document_is_missing(tmp_path: Path) -> None:
    settings = RetrievalSettings(documents_path=tmp_path, mock_mode=False)
    assert (await post(SEED, settings=settings)).status_code == 404


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVAL_MAX_WINDOW", "7")
    assert load_settings().max_window == 7


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVAL_TOKEN", "")
    assert load_settings().token is None


def test_the_error_for_an_invalid_setting_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVAL_PORT", "eighty")
    with pytest.raises(SettingsError, match="RETRIEVAL_PORT"):
        load_settings()


@pytest.mark.parametrize(
    "more",
    [
        b'"tenant_id": "tenant_2"',
        b'"more": NaN',
        b'"more": 1e400',
        b'"more": "\\ud800"',
        b'"more": ' + b"[" * 70 + b"]" * 70,
        json.dumps({"roles": ["r"] * 10_001}).encode()[1:-1],
    ],
)
async def test_json_that_is_not_strict_is_refused(more: bytes) -> None:
    response = await post(json.dumps(SEED).encode()[:-1] + b", " + more + b"}")
    assert (response.status_code, code_of(response)) == (400, "INVALID_REQUEST")
