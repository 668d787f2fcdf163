"""Search by meaning through the API, over a folder of documents."""

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.documents.document_file import document_path, dump_document, write_document
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.settings.settings import Settings
from tests.support.bounds import BOUND_S, until
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.embeddings_service import (
    Answer,
    EmbeddingsService,
    answer_endlessly,
    answer_well,
    answer_with,
    never_answer,
    running_embeddings,
)
from tests.support.service import Service, running
from tests.support.tokens import bearer

PAGES = (
    "Chapter one. The purchaser may demand compensation within thirty days of delivery.",
    "Chapter two. Every automobile is inspected before winter, brakes and lights included.",
    "Chapter three. Invoices are due at the end of the month, unless agreed otherwise.",
)
ADMIN = "an-admin-token-of-16"
PARAPHRASE = "client reimbursement"
"""None of its words is in the document."""


@pytest.fixture
async def embeddings() -> AsyncIterator[EmbeddingsService]:
    async with running_embeddings() as service:
        yield service


def manual(**changes: Any) -> Document:
    return make_document(**{"tenant_id": "tenant_1", "doc_id": "manual", "pages": PAGES, **changes})


def settings_of(embeddings: EmbeddingsService, **changes: object) -> dict[str, Any]:
    """Keep the documents in the test's folder."""
    return {
        "documents_path": Path("documents"),
        "cache_dir": Path("cache"),
        "embeddings_url": embeddings.url,
        "embeddings_model": "bag-1",
        "embeddings_api_key": "k3y-of-embeddings",
        "embeddings_query_timeout": BOUND_S,
        **changes,
    }


def put(document: Document) -> None:
    write_document(Path("documents"), document, replace=True)


async def upload(service: Service, pages: Sequence[str] = PAGES, *, replaces: bool = False) -> None:
    content = dump_document(manual(pages=pages))
    condition = {"If-Match": "*"} if replaces else {"If-None-Match": "*"}
    answer = await service.http.put(
        "/internal/documents/content",
        params={"tenant_id": "tenant_1", "doc_id": "manual"},
        content=content,
        headers={"Content-Type": "application/json", **condition, **bearer(ADMIN)},
    )
    assert answer.is_success, answer.text


async def found(service: Service, query: str, **context: Any) -> list[int]:
    arguments = {"doc_id": "manual", "query": query}
    result = await service.result("doc_local_search", arguments, **context)
    return [snippet["page"] for snippet in result["snippets"]]


async def wait_until_embedded(service: Service, count: int = 1) -> None:
    registry = service.gateway.metrics.registry
    await until(
        lambda: registry.get_sample_value("mcp_proxy_documents_embedded_total") == count,
        "the vectors were made",
    )


def outcomes(service: Service, purpose: str, outcome: str) -> float:
    labels = {"purpose": purpose, "outcome": outcome}
    registry = service.gateway.metrics.registry
    return registry.get_sample_value("mcp_proxy_embeddings_requests_total", labels) or 0


async def test_a_paraphrase_is_found_after_the_document_has_vectors(
    embeddings: EmbeddingsService,
) -> None:
    put(manual())
    async with running(**settings_of(embeddings)) as service:
        assert await found(service, PARAPHRASE) == []
        await wait_until_embedded(service)

        assert await found(service, PARAPHRASE) == [1]


async def test_only_texts_and_the_model_are_sent(embeddings: EmbeddingsService) -> None:
    put(manual())
    async with running(**settings_of(embeddings)) as service:
        await found(service, PARAPHRASE)
        await wait_until_embedded(service)
        await found(service, PARAPHRASE)

    assert [set(request) for request in embeddings.requests] == [{"model", "input"}] * 2
    assert embeddings.texts == [*PAGES, PARAPHRASE]
    assert {headers["Authorization"] for headers in embeddings.headers} == {
        "Bearer k3y-of-embeddings"
    }
    sent = json.dumps([embeddings.requests, embeddings.headers])
    assert "tenant_1" not in sent
    assert "user_1" not in sent
    assert "manual" not in sent
    assert not {name.lower() for headers in embeddings.headers for name in headers} & {
        "traceparent",
        "x-trace-id",
        "cookie",
    }


async def test_an_uploaded_document_has_vectors_before_its_first_search(
    embeddings: EmbeddingsService,
) -> None:
    async with running(**settings_of(embeddings), admin_token=ADMIN) as service:
        await upload(service)
        await wait_until_embedded(service)

        assert await found(service, PARAPHRASE) == [1]


async def test_an_upload_succeeds_while_the_service_fails(embeddings: EmbeddingsService) -> None:
    embeddings.answer = answer_with("no", 500)
    async with running(**settings_of(embeddings), admin_token=ADMIN) as service:
        await upload(service)
        await until(lambda: outcomes(service, "document", "failed"), "the service failed")

        embeddings.answer = answer_well
        await wait_until_embedded(service)


async def test_vectors_survive_a_restart(embeddings: EmbeddingsService) -> None:
    put(manual())
    async with running(**settings_of(embeddings)) as service:
        await found(service, PARAPHRASE)
        await wait_until_embedded(service)
    async with running(**settings_of(embeddings)) as service:
        assert await found(service, PARAPHRASE) == [1]

    assert embeddings.texts == [*PAGES, PARAPHRASE]


async def test_another_model_creates_new_vectors(embeddings: EmbeddingsService) -> None:
    put(manual())
    async with running(**settings_of(embeddings)) as service:
        await found(service, PARAPHRASE)
        await wait_until_embedded(service)
    async with running(**settings_of(embeddings, embeddings_model="bag-2")) as service:
        assert await found(service, PARAPHRASE) == []
        await wait_until_embedded(service)
        assert await found(service, PARAPHRASE) == [1]

    assert [request["model"] for request in embeddings.requests] == ["bag-1", "bag-2", "bag-2"]


async def test_a_changed_model_of_the_same_name_creates_new_vectors_once(
    embeddings: EmbeddingsService,
) -> None:
    put(manual())
    async with running(**settings_of(embeddings)) as service:
        await found(service, PARAPHRASE)
        await wait_until_embedded(service)
        embeddings.dimension = 96
        assert await found(service, PARAPHRASE) == []
        await wait_until_embedded(service, 2)
        assert await found(service, PARAPHRASE) == [1]

        embeddings.dimension = 48  # changes with each request: must not cause endless costs
        assert await found(service, "reimbursement") == []
        assert await found(service, "vehicle") == []
        assert await found(service, "compensation") == [1]
        await wait_until_embedded(service, 2)


async def test_a_new_version_is_searched_with_its_own_vectors(
    embeddings: EmbeddingsService,
) -> None:
    put(manual())
    async with running(**settings_of(embeddings), admin_token=ADMIN) as service:
        await found(service, PARAPHRASE)
        await wait_until_embedded(service)
        await upload(service, PAGES[::-1], replaces=True)
        await wait_until_embedded(service, 2)

        assert await found(service, PARAPHRASE) == [3]


async def test_exact_words_rank_first(embeddings: EmbeddingsService) -> None:
    pages = (*("Reimbursement of the client, reimbursement, client money." for _ in range(6)), "x")
    exact = "Compensation of a purchaser is listed in the annex, by country and by year of sale."
    put(manual(pages=(*pages, exact)))
    async with running(**settings_of(embeddings)) as service:
        await found(service, PARAPHRASE)
        await wait_until_embedded(service)

        assert (await found(service, "purchaser compensation"))[0] == 8


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(answer_with("no", 500), id="500"),
        pytest.param(answer_with("slow down", 429, {"Retry-After": "1"}), id="429"),
        pytest.param(answer_with("<html>Welcome</html>", 200), id="HTML"),
        pytest.param(answer_with("", 302, {"Location": "http://127.0.0.1:9/"}), id="redirect"),
        pytest.param(answer_with('{"data": []}'), id="too few"),
        pytest.param(answer_with('{"data": [{"embedding": [NaN, 1]}]}'), id="NaN"),
        pytest.param(answer_with('{"data": [{"embedding": [1e999, 1]}]}'), id="infinite"),
        pytest.param(answer_with('{"data": [{"embedding": [1e300, 1e300]}]}'), id="too large"),
        pytest.param(answer_with('{"data": [{"embedding": []}]}'), id="empty"),
        pytest.param(answer_with('{"data": [{"embedding": ["1", "2"]}]}'), id="texts"),
        pytest.param(answer_with('{"data": [{"embedding": [1], "index": 4}]}'), id="other index"),
        pytest.param(answer_with('{"data": [{"embedding": [0, 0, 1]}]}'), id="wrong length"),
        pytest.param(answer_with('{"data": "' + "[" * 5_000), id="cut off"),
        pytest.param(answer_with("{}", 200, {"Content-Encoding": "gzip"}), id="compressed"),
        pytest.param(never_answer, id="never"),
        pytest.param(answer_endlessly, id="endless"),
    ],
)
async def test_a_search_continues_by_words_after_any_answer_of_the_service(
    embeddings: EmbeddingsService, answer: Answer
) -> None:
    put(manual())
    changes = {"embeddings_query_timeout": 0.2}
    async with running(**settings_of(embeddings, **changes)) as service:
        await found(service, PARAPHRASE)
        await wait_until_embedded(service)
        embeddings.answer = answer

        assert await found(service, "winter brakes") == [2]
        assert await found(service, PARAPHRASE) == []
        without = service.gateway.metrics.registry.get_sample_value(
            "mcp_proxy_searches_without_meaning_total"
        )
        assert without is not None
        assert without >= 1


async def test_a_failed_service_is_not_called_by_each_search(
    embeddings: EmbeddingsService,
) -> None:
    put(manual())
    async with running(**settings_of(embeddings)) as service:
        await found(service, PARAPHRASE)
        await wait_until_embedded(service)
        embeddings.answer = answer_with("no", 503)
        before = len(embeddings.requests)
        with capture_logs() as logs:
            for number in range(30):
                assert await found(service, f"winter brakes {number}") == [2]

        assert len(embeddings.requests) - before <= 3
        failures = [line for line in logs if line["event"] == "embeddings.failed"]
        assert [(it["purpose"], it["reason"]) for it in failures] == [
            ("query", "answered with HTTP status 503")
        ]


async def test_a_refused_document_is_not_sent_again(embeddings: EmbeddingsService) -> None:
    put(manual())
    embeddings.answer = answer_with("too long", 400)
    async with running(**settings_of(embeddings)) as service:
        await found(service, "winter")
        await until(lambda: outcomes(service, "document", "failed"), "it was refused")
        for _ in range(3):
            assert await found(service, "winter") == [2]

    assert len(embeddings.requests) == 1


async def test_quotes_are_not_sent(embeddings: EmbeddingsService) -> None:
    put(manual())
    async with running(**settings_of(embeddings)) as service:
        await found(service, PARAPHRASE)
        await wait_until_embedded(service)
        await service.result("verify_quote", {"doc_id": "manual", "quote": "a quote of nobody"})

    assert embeddings.texts == [*PAGES]


async def test_another_tenants_query_is_sent_again(embeddings: EmbeddingsService) -> None:
    """Response times must not reveal the searches of another tenant."""
    put(manual())
    put(manual(tenant_id="tenant_2"))
    async with running(**settings_of(embeddings)) as service:
        for tenant_id in ("tenant_1", "tenant_2"):
            await found(service, PARAPHRASE, tenant_id=tenant_id)
        await wait_until_embedded(service, 2)
        for tenant_id in ("tenant_1", "tenant_1", "tenant_2"):
            assert await found(service, PARAPHRASE, tenant_id=tenant_id) == [1]

    assert embeddings.texts.count(PARAPHRASE) == 2


async def test_vectors_are_deleted_with_their_document(embeddings: EmbeddingsService) -> None:
    put(manual())
    async with running(**settings_of(embeddings)) as service:
        await found(service, PARAPHRASE)
        await wait_until_embedded(service)
        assert kept_names() == 1
        document_path(Path("documents"), "tenant_1", "manual").unlink()

        await until(lambda: kept_names() == 0, "the vectors are gone")


async def test_vectors_of_a_document_deleted_while_stopped_are_removed_at_the_start(
    embeddings: EmbeddingsService,
) -> None:
    put(manual())
    async with running(**settings_of(embeddings)) as service:
        await found(service, PARAPHRASE)
        await wait_until_embedded(service)
    document_path(Path("documents"), "tenant_1", "manual").unlink()
    async with running(documents_path=Path("documents"), cache_dir=Path("cache")):
        assert kept_names() == 0


def vector_files() -> list[Path]:
    return [*Path("cache").glob("vectors-*.sqlite")]


def kept_names() -> int:
    (path,) = vector_files()
    with closing(sqlite3.connect(path)) as database:
        (count,) = database.execute("SELECT count(*) FROM vectors").fetchone()
    return int(count)


async def test_nothing_is_sent_or_imported_if_it_is_off() -> None:
    put(manual())
    program = (
        "import sys, mcp_tools_proxy.app.http, mcp_tools_proxy.cli.main;"
        "print([name for name in sys.modules if name.partition('.')[0] == 'numpy'])"
    )
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert (await done.communicate())[0] == b"[]\n"
    async with running(documents_path=Path("documents"), cache_dir=Path("cache")) as service:
        assert await found(service, PARAPHRASE) == []

    assert not vector_files()


def file_in_place_of_a_folder() -> Path:
    path = Path("no-folder")
    path.touch()
    return path


async def test_vectors_that_cannot_be_stored_are_not_requested_again(
    embeddings: EmbeddingsService,
) -> None:
    put(manual())
    changes = {"cache_dir": file_in_place_of_a_folder()}
    async with running(**settings_of(embeddings, **changes)) as service:
        with capture_logs() as logs:
            await found(service, PARAPHRASE)
            await until(lambda: "embeddings.not_kept" in {it["event"] for it in logs}, "it is told")
        for _ in range(3):
            assert await found(service, PARAPHRASE) == []

    assert embeddings.texts == [*PAGES]


def test_the_start_names_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    client = "mcp_tools_proxy.documents.embeddings.embeddings_client"
    monkeypatch.setitem(sys.modules, client, None)
    settings = {"embeddings_url": "http://127.0.0.1:9/v1/embeddings", "embeddings_model": "bag"}

    with pytest.raises(ValueError, match="pip install 'mcp-tools-proxy\\[embeddings\\]'"):
        create_app(Settings.model_validate(settings))


def test_a_service_without_a_model_stops_the_start() -> None:
    with pytest.raises(ValueError, match="MCP_PROXY_EMBEDDINGS_MODEL: is required"):
        Settings.model_validate({"embeddings_url": "http://127.0.0.1:9/v1/embeddings"})
