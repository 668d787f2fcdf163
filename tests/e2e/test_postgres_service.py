"""The service and the reference Retrieval Service over PostgreSQL, as processes."""

import asyncio
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.domain.document import Document, Readers
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.postgres_databases import Databases, PostgresDatabase
from tests.support.program import UNLIMITED, Program, started, wait_until
from tests.support.program_launch import run

pytestmark = pytest.mark.e2e

PATIENT = {**UNLIMITED, "MCP_PROXY_DOCUMENTS_TIMEOUT": str(BOUND_S)}
BOOK = make_document(tenant_id="acme", doc_id="book", pages=("one", "two"))


@pytest.fixture
def database(databases: Databases) -> PostgresDatabase:
    return asyncio.run(databases.new())


def put(database: PostgresDatabase, document: Document) -> None:
    async def write() -> None:
        writer = PostgresWriter(Database(database.url, timeout_s=BOUND_S))
        await writer.put(document, expected=Expected.ANYTHING, keep_readers=False)
        await writer.close()

    asyncio.run(write())


def execute(database: PostgresDatabase, statement: str) -> None:
    async def work() -> None:
        connection = await asyncpg.connect(database.owner_url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(work())


def code(program: Program, tool: str = "read_doc_pages", **arguments: object) -> object:
    call = {
        "tool_name": tool,
        "arguments": {"doc_id": "book", **arguments},
        "user": {"user_id": "u", "tenant_id": "acme"},
    }
    envelope = program.http.post("/internal/mcp/execute", json=call).json()
    return envelope["error"]["code"] if "error" in envelope else envelope["status"]


def is_denied(program: Program) -> bool:
    return code(program, page_start=1, page_end=2) == "ACCESS_DENIED"


def test_two_replicas_serve_the_database_and_see_changes_together(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    settings = {**PATIENT, "MCP_PROXY_DOCUMENTS_URL": database.url}
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    put(database, BOOK)
    with started(first, settings) as one, started(second, settings) as two:
        for program in (one, two):
            assert code(program, page_start=1, page_end=2) == "ok"
            assert code(program, "doc_local_search", query="two") == "ok"
            check = program.http.get("/health/ready").json()["checks"]["documents"]
            assert (check["status"], check["store"]) == ("ok", "postgresql")
        put(database, make_document(tenant_id="acme", doc_id="book", readers=Readers()))
        for program in (one, two):
            wait_until(partial(is_denied, program))


def test_a_role_that_owns_the_documents_stops_the_start(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    ended = run(tmp_path, "serve", MCP_PROXY_DOCUMENTS_URL=database.owner_url)
    assert ended[0] == 2
    assert ended[2].count("\n") == 1
    assert "MCP_PROXY_DOCUMENTS_URL: the role" in ended[2]
    assert "documents migrate creates it" in ended[2]


def test_a_service_with_the_owner_migrates_at_its_start(
    tmp_path: Path, databases: Databases
) -> None:
    database = asyncio.run(databases.new(is_migrated=False))
    url = database.server.url(f"gateway_{database.name}", database.name)
    settings = {"MCP_PROXY_DOCUMENTS_URL": url, "MCP_PROXY_DOCUMENTS_OWNER_URL": database.owner_url}
    with started(tmp_path, {**PATIENT, **settings}) as program:
        assert code(program, page_start=1, page_end=2) == "DOCUMENT_NOT_FOUND"


def test_an_unreachable_database_does_not_stop_the_start(tmp_path: Path) -> None:
    url = "postgresql://gateway:secret@127.0.0.1:1/documents"
    with started(tmp_path, {**UNLIMITED, "MCP_PROXY_DOCUMENTS_URL": url}) as program:
        assert code(program, page_start=1, page_end=2) == "DOCUMENTS_UNAVAILABLE"
        check = program.http.get("/health/ready").json()["checks"]["documents"]
        assert check["status"] == "degraded"
        assert "secret" not in str(check)
        assert code(program, "list_available_tools") != "DOCUMENTS_UNAVAILABLE"
