import pytest

from mcp_tools_proxy.documents.document_store import Wanted
from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.store import PostgresDocuments
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.postgres_databases import PostgresDatabase
from tests.support.postgres_server import GATEWAY

KEY = ("acme", "doc")


def documents(url: str) -> PostgresDocuments:
    return PostgresDocuments(url, timeout_s=BOUND_S, stale_s=BOUND_S)


async def test_nothing_is_read_before_role_and_schema_were_checked(
    postgres: PostgresDatabase,
) -> None:
    made = documents(postgres.url)
    assert made.readiness()["status"] == "degraded"
    with pytest.raises(DocumentsUnavailable):
        await made.store.read(KEY, Wanted())
    await made.close()


async def test_the_first_call_after_the_start_is_answered(postgres: PostgresDatabase) -> None:
    writer = PostgresWriter(Database(postgres.url, timeout_s=BOUND_S))
    written = make_document(tenant_id="acme", pages=("text",))
    await writer.put(written, expected=Expected.NOTHING, keep_readers=False)
    await writer.close()
    made = documents(postgres.url)
    with capture_logs() as lines:
        await made.connect()
    assert made.readiness()["status"] == "ok"
    found = await made.store.read(KEY, Wanted(pages=(1, 1)))
    assert found is not None
    assert found.pages == {1: "text"}
    assert lines == []
    await made.close()


async def test_the_service_starts_with_an_unavailable_database(
    postgres: PostgresDatabase,
) -> None:
    made = documents(postgres.server.url(GATEWAY, postgres.name, port=1))
    with capture_logs() as lines:
        await made.connect()
    assert made.readiness()["status"] == "degraded"
    assert [line["event"] for line in lines] == ["documents.database_lost"]
    await made.close()


async def test_the_owners_role_reads_nothing(postgres: PostgresDatabase) -> None:
    made = documents(postgres.owner_url)
    await made.connect()
    assert "superuser" in str(made.readiness()["reason"])
    with pytest.raises(DocumentsUnavailable):
        await made.store.read(KEY, Wanted())
    await made.close()


@pytest.mark.parametrize("password", ["secret/word", "secret?word", "[secret", "se#cret@"])
async def test_an_unencoded_url_degrades_the_service_without_showing_its_password(
    password: str,
) -> None:
    made = documents(f"postgresql://gateway:{password}@127.0.0.1:1/documents")
    with capture_logs() as lines:
        await made.connect()
    assert "percent-encode" in str(made.readiness()["reason"])
    assert "secret" not in f"{lines} {made.readiness()} {made.store!r}"
    await made.close()
