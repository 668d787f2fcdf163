"""Search by meaning after an import: the command creates vectors and the service uses them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.bounds import BOUND_S
from tests.support.documents_cli import documents_commands
from tests.support.embeddings_service import EmbeddingsService, answer_with, running_embeddings
from tests.support.postgres_databases import Databases
from tests.support.service import running

TEXT = "# Sales\n\nThe purchaser may demand compensation within thirty days of delivery.\n"
PARAPHRASE = "client reimbursement"


@pytest.fixture(params=["folder", "postgres"])
async def settings(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> dict[str, Any]:
    made: dict[str, Any] = {"cache_dir": tmp_path / "cache"}
    if request.param == "postgres":
        made |= {"documents_url": (await databases.new()).url, "documents_timeout": BOUND_S}
    return made


@pytest.fixture
async def embeddings() -> AsyncIterator[EmbeddingsService]:
    async with running_embeddings() as service:
        yield service


async def imported(tmp_path: Path, settings: dict[str, Any]) -> Any:
    file = tmp_path / "manual.md"
    file.write_text(TEXT, encoding="utf-8")
    run = documents_commands(tmp_path / "documents", **settings)
    return await asyncio.to_thread(run, "import", file, "--tenant", "tenant_1")


async def found(tmp_path: Path, settings: dict[str, Any]) -> int:
    async with running(documents_path=tmp_path / "documents", **settings) as service:
        arguments = {"doc_id": "manual", "query": PARAPHRASE}
        result = await service.result("doc_local_search", arguments)
    return int(result["count"])


async def test_imported_documents_are_found_by_meaning_in_the_first_search(
    tmp_path: Path, settings: dict[str, Any], embeddings: EmbeddingsService
) -> None:
    settings |= {"embeddings_url": embeddings.url, "embeddings_model": "bag"}
    result = await imported(tmp_path, settings)
    assert (result.exit_code, result.stderr) == (0, "")

    assert await found(tmp_path, settings) == 1
    assert embeddings.texts == [TEXT.strip(), PARAPHRASE]


async def test_an_import_succeeds_while_the_service_fails(
    tmp_path: Path, settings: dict[str, Any], embeddings: EmbeddingsService
) -> None:
    embeddings.answer = answer_with("no", 500)
    settings |= {"embeddings_url": embeddings.url, "embeddings_model": "bag"}
    result = await imported(tmp_path, settings)

    assert result.exit_code == 0
    assert result.stderr == (
        "no vectors were made: the service answered with HTTP status 500; the gateway makes them "
        "once the document is searched\n"
    )
    assert await found(tmp_path, settings) == 0
