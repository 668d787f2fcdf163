from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.document_store import StoredVectors
from mcp_tools_proxy.documents.document_writer import DocumentWriter, Expected
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache, VectorFile
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_writer import FolderWriter
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.postgres_databases import Databases

KEY = ("acme", "doc")


@pytest.fixture(params=["folder", "postgres"])
async def writer(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> AsyncIterator[DocumentWriter]:
    root, cache = tmp_path / "documents", tmp_path / "cache"
    store = FolderStore(root, ScanCache(cache, root), vectors=VectorFile(cache, root))
    made: DocumentWriter = FolderWriter(store)
    if request.param == "postgres":
        made = PostgresWriter(Database((await databases.new()).url, timeout_s=BOUND_S))
    yield made
    await made.close()


async def put(writer: DocumentWriter, text: str, tenant_id: str = "acme") -> str:
    """Put the document; return its version."""
    document = make_document(tenant_id=tenant_id, doc_id="doc", pages=(text,))
    head = await writer.put(document, expected=Expected.ANYTHING, keep_readers=False)
    return head.version


def vectors_of(version: str, data: bytes = b"abcdefgh") -> StoredVectors:
    return StoredVectors(version=version, model="m", dimension=2, data=data)


async def test_stored_vectors_are_read_unchanged(writer: DocumentWriter) -> None:
    version = await put(writer, "one")
    await writer.vectors.write(KEY, vectors_of(version))
    await writer.vectors.write(KEY, vectors_of(version, b"ABCD"))

    read = await writer.vectors.read(KEY, version, "m")
    assert read == vectors_of(version, b"ABCD")
    assert read.count == 1


async def test_vectors_of_another_version_or_model_are_not_found(writer: DocumentWriter) -> None:
    version = await put(writer, "one")
    await writer.vectors.write(KEY, vectors_of(version))

    assert await writer.vectors.read(KEY, version, "another") is None
    newer = await put(writer, "two")
    assert await writer.vectors.read(KEY, newer, "m") is None


async def test_late_vectors_of_an_older_version_are_not_used(
    writer: DocumentWriter,
) -> None:
    older = await put(writer, "one")
    newer = await put(writer, "two")
    await writer.vectors.write(KEY, vectors_of(older))

    assert await writer.vectors.read(KEY, newer, "m") is None


async def test_vectors_are_removed_with_their_document(writer: DocumentWriter) -> None:
    version = await put(writer, "one")
    await writer.vectors.write(KEY, vectors_of(version))
    await writer.remove(KEY, expected=version)
    assert await put(writer, "one") == version

    assert await writer.vectors.read(KEY, version, "m") is None


async def test_vectors_of_a_missing_document_are_not_found(writer: DocumentWriter) -> None:
    await writer.vectors.write(KEY, vectors_of("v"))

    assert await writer.vectors.read(KEY, "v", "m") is None


async def test_another_tenant_has_separate_vectors(writer: DocumentWriter) -> None:
    version = await put(writer, "one")
    assert await put(writer, "one", "other") == version
    await writer.vectors.write(KEY, vectors_of(version))

    assert await writer.vectors.read(("other", "doc"), version, "m") is None
