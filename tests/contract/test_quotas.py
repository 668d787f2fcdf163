import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.document_file import InvalidDocument
from mcp_tools_proxy.documents.document_writer import DocumentWriter, Expected
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_writer import FolderWriter
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.documents.versions import rights_tag
from mcp_tools_proxy.domain.document import Document, Readers
from mcp_tools_proxy.domain.errors import QuotaExceeded
from mcp_tools_proxy.domain.logins import LoginOwner
from mcp_tools_proxy.domain.quota import Quota
from mcp_tools_proxy.storage.logins.file_logins import FileLogins
from mcp_tools_proxy.storage.logins.login_store import LoginStore, StoredLogin
from mcp_tools_proxy.storage.logins.postgres_logins import PostgresLogins
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.postgres_databases import Databases
from tests.support.stored_logins import ANA, BINDING, DEPLOYMENT, GLOBEX

OpenWriter = Callable[[Quota | None], DocumentWriter]
OpenStore = Callable[[Quota | None], LoginStore]


def documents(count: int = 0, size: int = 0) -> Quota:
    return Quota(kind="documents", count=count, bytes=size)


def logins(count: int = 0, size: int = 0) -> Quota:
    return Quota(kind="logins", count=count, bytes=size)


@pytest.fixture(params=["folder", "postgres"])
async def open_writer(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> AsyncIterator[OpenWriter]:
    """Open another writer of the same documents, as another replica does."""
    url = (await databases.new()).url if request.param == "postgres" else ""
    opened: list[DocumentWriter] = []

    def open_one(quota: Quota | None) -> DocumentWriter:
        if url:
            made: DocumentWriter = PostgresWriter(Database(url, timeout_s=BOUND_S), quota=quota)
        else:
            root, cache = tmp_path / "documents", tmp_path / f"cache{len(opened)}"
            made = FolderWriter(FolderStore(root, ScanCache(cache, root)), quota=quota)
        opened.append(made)
        return made

    yield open_one
    for writer in opened:
        await writer.close()


@pytest.fixture(params=["folder", "postgres"])
async def open_store(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> AsyncIterator[OpenStore]:
    """Open another store of the same logins, as another replica does."""
    url = (await databases.new()).url if request.param == "postgres" else ""
    opened: list[Database] = []

    def open_one(quota: Quota | None) -> LoginStore:
        if not url:
            return FileLogins(tmp_path / "logins", quota=quota)
        opened.append(Database(url, timeout_s=BOUND_S))
        return PostgresLogins(opened[-1], quota=quota)

    yield open_one
    for database in opened:
        await database.close()


async def put(writer: DocumentWriter, document: Document) -> None:
    await writer.put(document, expected=Expected.ANYTHING, keep_readers=False)


def document(number: int = 1, *, tenant_id: str = "acme", size: int = 3) -> Document:
    # random text, because PostgreSQL compresses the older versions that it keeps
    text = os.urandom(size // 2 + 1).hex()[:size]
    return make_document(tenant_id=tenant_id, doc_id=f"doc {number}", pages=(text,))


async def test_parallel_writes_of_replicas_stay_within_the_count(open_writer: OpenWriter) -> None:
    writers = [open_writer(documents(count=5)) for _ in range(3)]
    writes = [put(writers[number % 3], document(number)) for number in range(12)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 5
    assert sum(isinstance(outcome, QuotaExceeded) for outcome in outcomes) == 7
    await put(writers[0], document(tenant_id="globex"))  # another tenant has its own quota
    await put(open_writer(None), document(99))  # the operator's commands have no quota


async def test_parallel_writes_of_replicas_stay_within_the_bytes(open_writer: OpenWriter) -> None:
    writers = [open_writer(documents(size=25_000)) for _ in range(2)]
    writes = [put(writers[number % 2], document(number, size=10_000)) for number in range(6)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 2
    refusal = next(it for it in outcomes if isinstance(it, QuotaExceeded))
    assert refusal.details is not None
    assert (refusal.details["unit"], refusal.details["limit"]) == ("bytes", 25_000)


async def test_a_replaced_document_counts_only_the_difference(open_writer: OpenWriter) -> None:
    writer = open_writer(documents(count=1, size=21_000))
    await put(writer, document(size=10_000))
    await put(writer, document(size=20_000))
    await put(writer, document(size=20_000))
    with pytest.raises(QuotaExceeded, match="limit of 21000"):
        await put(writer, document(size=22_000))
    await put(writer, document(size=10))


async def test_older_versions_cannot_be_used_to_store_more(open_writer: OpenWriter) -> None:
    writer = open_writer(documents(size=30_000))
    await put(writer, document(1, size=20_000))
    await put(writer, document(1, size=10))  # its older version of 20,000 bytes is kept
    with pytest.raises(QuotaExceeded):
        await put(writer, document(2, size=20_000))
    await put(writer, document(1, size=20))
    await put(writer, document(2, size=20_000))


async def test_pages_without_text_count(open_writer: OpenWriter) -> None:
    writer = open_writer(documents(size=25_000))
    empty = make_document(tenant_id="acme", doc_id="empty", pages=("a", *[""] * 9_000))
    with pytest.raises(QuotaExceeded):
        await put(writer, empty)
    await put(writer, document(2, size=20_000))


async def test_original_pdfs_count(open_writer: OpenWriter) -> None:
    writer = open_writer(documents(size=30_000))
    pdf = b"%PDF-" + os.urandom(20_000)
    anything, first, second = Expected.ANYTHING, document(1), document(2)
    await writer.put(first, expected=anything, keep_readers=False, original=pdf)
    with pytest.raises(QuotaExceeded):
        await writer.put(second, expected=anything, keep_readers=False, original=pdf)
    await writer.put(first, expected=anything, keep_readers=False, original=pdf)


async def test_facts_kept_in_memory_are_bounded(open_writer: OpenWriter) -> None:
    writer = open_writer(documents(count=100))
    many = tuple(f"tag {number:06}" for number in range(6_000))
    names = frozenset(f"user {number:06}" for number in range(6_000))
    for large in (
        dataclasses.replace(document(), tags=many),
        dataclasses.replace(document(), title="x" * 70_000),
        dataclasses.replace(document(), readers=Readers(users=names)),
    ):
        with pytest.raises(InvalidDocument, match="limit is 65536"):
            await put(writer, large)
    await put(writer, document())
    key, none = ("acme", "doc 1"), rights_tag(None)
    with pytest.raises(InvalidDocument, match="limit is 65536"):
        await writer.set_readers(key, Readers(roles=names), expected=none)
    assert (await writer.list_heads("acme", limit=9))[0].readers is None


async def test_facts_of_all_documents_together_are_bounded(open_writer: OpenWriter) -> None:
    writer = open_writer(documents(count=100))  # 102,400 bytes of facts
    tags = ("x" * 60_000,)
    await put(writer, dataclasses.replace(document(1), tags=tags))
    with pytest.raises(QuotaExceeded, match="facts bytes of documents"):
        await put(writer, dataclasses.replace(document(2), tags=tags))
    await put(writer, dataclasses.replace(document(1), tags=tags))


async def test_parallel_sign_ins_stay_within_the_count(open_store: OpenStore) -> None:
    stores = [open_store(logins(count=4)) for _ in range(2)]
    owners = [dataclasses.replace(ANA, user_id=f"user {number}") for number in range(9)]
    writes = [stores[n % 2].put(owner, BINDING, b"x") for n, owner in enumerate(owners)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(outcome, QuotaExceeded) for outcome in outcomes) == 5
    assert len(await stores[0].owners(ANA.tenant_id)) == 4
    kept = next(it.owner for it in outcomes if not isinstance(it, BaseException))
    await stores[0].put(kept, BINDING, b"y")  # signs in again
    await stores[0].put(GLOBEX, BINDING, b"x")
    await stores[0].put(DEPLOYMENT, BINDING, b"x")
    await open_store(None).put(ANA, BINDING, b"x")  # by the operator's command


async def test_bytes_of_logins_are_bounded(open_store: OpenStore) -> None:
    store = open_store(logins(size=20_000))
    await store.put(ANA, BINDING, b"x" * 9_000)
    bob = dataclasses.replace(ANA, user_id="bob")
    with pytest.raises(QuotaExceeded, match="bytes of logins"):
        await store.put(bob, BINDING, b"x" * 12_000)
    await store.put(ANA, BINDING, b"x")
    await store.put(bob, BINDING, b"x" * 12_000)
    assert await store.find(bob) is not None


async def test_growth_of_a_login_during_renewal_counts(open_store: OpenStore) -> None:
    store = open_store(logins(size=30_000))
    bob = dataclasses.replace(ANA, user_id="bob")
    stored = await store.put(ANA, BINDING, b"x" * 9_000)
    other = await store.put(bob, BINDING, b"x" * 9_000)
    sent = await store.replace(stored, stored.sealed, refresh_sent=True)
    assert sent is not None
    with pytest.raises(QuotaExceeded, match="bytes of logins"):
        await store.replace(sent, b"y" * 21_000)
    assert await store.find(ANA) == sent
    assert await store.replace(other, b"y") is not None
    assert await store.replace(sent, b"y" * 21_000) is not None


async def test_parallel_renewals_of_replicas_stay_within_the_bytes(open_store: OpenStore) -> None:
    stores = [open_store(logins(size=20_000)) for _ in range(2)]
    owners = [dataclasses.replace(ANA, user_id=f"user {number}") for number in range(8)]
    stored = [await stores[0].put(owner, BINDING, b"x") for owner in owners]
    writes = [stores[n % 2].replace(it, b"y" * 4_500) for n, it in enumerate(stored)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert 1 <= sum(not isinstance(outcome, BaseException) for outcome in outcomes) <= 4
    assert all(isinstance(it, QuotaExceeded | StoredLogin) for it in outcomes)


@pytest.mark.parametrize("owner", [GLOBEX, DEPLOYMENT])
async def test_renewals_of_another_tenant_or_the_deployment_are_not_refused(
    open_store: OpenStore, owner: LoginOwner
) -> None:
    store = open_store(logins(size=20_000))
    await store.put(ANA, BINDING, b"x" * 12_000)
    stored = await store.put(owner, BINDING, b"x")
    assert await store.replace(stored, b"y" * 12_000) is not None
