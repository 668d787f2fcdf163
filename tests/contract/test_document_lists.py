from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import CatalogQuery, fold, words_of
from mcp_tools_proxy.documents.postgres.rows import LIST_READABLE
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, Readers
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.builders import make_document
from tests.support.document_stores import FilledStore
from tests.support.postgres_databases import PostgresDatabase


@pytest.fixture
def repository(filled_store: FilledStore) -> Iterator[DocumentRepository]:
    made = DocumentRepository(
        filled_store.store, cache_bytes=10**6, hide_foreign_documents=False, metrics=Metrics()
    )
    yield made
    made.close()


def document(doc_id: str, **fields: Any) -> Document:
    return replace(make_document(tenant_id="acme", doc_id=doc_id), **fields)


def caller(user_id: str = "ann", *roles: str, documents: frozenset[str] | None = None) -> Caller:
    return Caller(tenant_id="acme", user_id=user_id, roles=roles, documents=documents)


async def ids(repository: DocumentRepository, query: CatalogQuery) -> list[str]:
    page = await repository.list_readable(query)
    return [entry.head.doc_id for entry in page.entries]


def any_of(who: Caller, **narrowed: Any) -> CatalogQuery:
    return replace(CatalogQuery(caller=who, limit=50), **narrowed)


async def test_a_list_has_the_tenants_documents_in_order_of_id(
    filled_store: FilledStore, repository: DocumentRepository
) -> None:
    for doc_id in ("größe, 1%", "b", "Ärger", "a", "Z", "漢字", "\U0001f600", "\uffee"):
        await filled_store.put(document(doc_id))
    await filled_store.put(make_document(tenant_id="other", doc_id="theirs"))
    assert await ids(repository, any_of(caller())) == [
        *("Z", "a", "b", "größe, 1%", "Ärger", "漢字", "\uffee", "\U0001f600")
    ]
    other = Caller(tenant_id="other", user_id="u")
    assert await ids(repository, any_of(other)) == ["theirs"]
    assert await ids(repository, any_of(Caller(tenant_id="none", user_id="u"))) == []


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (caller("ann"), ["all", "anns"]),
        (caller("ben", "audit"), ["all", "audit"]),
        (caller("ben", "board", "law"), ["all", "law"]),
        (caller("", "nobody"), ["all"]),
        (caller("ANN", "AUDIT"), ["all"]),
    ],
)
async def test_users_see_the_documents_readable_by_them_or_their_roles(
    filled_store: FilledStore, repository: DocumentRepository, who: Caller, expected: list[str]
) -> None:
    await filled_store.put(document("all"))
    await filled_store.put(document("anns", readers=Readers(users=frozenset({"ann"}))))
    await filled_store.put(document("audit", readers=Readers(roles=frozenset({"audit"}))))
    await filled_store.put(document("law", readers=Readers(roles=frozenset({"law", "tax"}))))
    await filled_store.put(document("nobodys", readers=Readers()))
    assert await ids(repository, any_of(who)) == expected


@pytest.mark.parametrize(
    ("bound", "expected"),
    [(["b", "other", "nowhere"], ["b"]), (["a", "hidden"], ["a"]), ([], [])],
)
async def test_only_bound_documents_are_listed(
    filled_store: FilledStore, repository: DocumentRepository, bound: list[str], expected: list[str]
) -> None:
    for doc_id in "abc":
        await filled_store.put(document(doc_id))
    await filled_store.put(document("hidden", readers=Readers()))
    await filled_store.put(make_document(tenant_id="globex", doc_id="other"))
    assert await ids(repository, any_of(caller(documents=frozenset(bound)))) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("HANDBUCH", ["vpn-1"]),
        ("größe", ["maße"]),
        ("GRÖSSE", ["maße"]),
        ("vpn", ["net", "vpn-1"]),
        ("access vpn", ["net"]),
        ("100%", ["full"]),
        ("a_b", ["under"]),
        ("a\\b", ["back"]),
        ("ﬁle", ["under"]),
        ("\ud800", []),
        ("  ", ["back", "full", "maße", "net", "under", "vpn-1"]),
    ],
)
async def test_words_match_title_id_or_tags_case_insensitively(
    filled_store: FilledStore, repository: DocumentRepository, query: str, expected: list[str]
) -> None:
    await filled_store.put(document("vpn-1", title="Handbuch"))
    await filled_store.put(document("maße", title="Größen"))
    await filled_store.put(document("net", title="Remote Access", tags=("VPN",)))
    await filled_store.put(document("full", title="100% sure"))
    await filled_store.put(document("under", title="A_B file"))
    await filled_store.put(document("back", title=r"a\b"))
    wanted = any_of(caller(), words=words_of(query, limit=9))
    assert await ids(repository, wanted) == expected


async def test_a_tag_matches_as_a_whole_and_case_insensitively(
    filled_store: FilledStore, repository: DocumentRepository
) -> None:
    await filled_store.put(document("a", tags=("Remote access", "x")))
    await filled_store.put(document("b", tags=("Remote",), title="Access"))
    await filled_store.put(document("access", title="Remote access"))
    assert await ids(repository, any_of(caller(), tag=fold("remote ACCESS"))) == ["a"]


async def test_only_the_first_hundred_tags_of_a_document_count(
    filled_store: FilledStore, repository: DocumentRepository
) -> None:
    await filled_store.put(document("a", tags=tuple(f"tag{number}." for number in range(101))))
    for name, expected in (("tag99.", ["a"]), ("tag100.", [])):
        assert await ids(repository, any_of(caller(), tag=name)) == expected
        assert await ids(repository, any_of(caller(), words=(name,))) == expected


async def test_ids_are_completed_from_a_prefix(
    filled_store: FilledStore, repository: DocumentRepository
) -> None:
    for doc_id in ("Hand", "hand_book", "handXbook", "ahand"):
        await filled_store.put(document(doc_id))
    assert await ids(repository, any_of(caller(), id_prefix=fold("HAND_"))) == ["hand_book"]
    assert len(await ids(repository, any_of(caller(), id_prefix="hand"))) == 3


async def test_a_list_continues_after_an_id_despite_additions_and_removals(
    filled_store: FilledStore, repository: DocumentRepository
) -> None:
    for doc_id in "bdfh":
        await filled_store.put(document(doc_id))
    first = await repository.list_readable(any_of(caller(), limit=2))
    await filled_store.put(document("a"))
    await filled_store.remove(("acme", "d"))
    await filled_store.put(document("e"))
    await filled_store.put(document("f", title="new"))
    second = await repository.list_readable(any_of(caller(), after="d"))
    assert [(entry.head.doc_id, entry.head.title) for entry in second.entries] == [
        ("e", document("e").title),
        ("f", "new"),
        ("h", document("h").title),
    ]
    assert (first.has_more, second.has_more, second.is_pending) == (True, False, False)


async def test_a_document_with_revoked_access_disappears_from_lists(
    filled_store: FilledStore, repository: DocumentRepository
) -> None:
    await filled_store.put(document("a"))
    before = await ids(repository, any_of(caller()))
    await filled_store.put(document("a", readers=Readers(users=frozenset({"ben"}))))
    assert (before, await ids(repository, any_of(caller()))) == (["a"], [])


async def test_language_tags_and_pages_are_listed(
    filled_store: FilledStore, repository: DocumentRepository
) -> None:
    made = document("a", language="pt-BR", tags=("One", "two"), pages=("x", "y"))
    await filled_store.put(made)
    await filled_store.put(document("b"))
    page = await repository.list_readable(any_of(caller()))
    heads = [entry.head for entry in page.entries]
    assert [(head.language, head.tags, head.page_count) for head in heads] == [
        ("pt-BR", ("One", "two"), 2),
        (None, document("b").tags, 1),
    ]


async def test_documents_in_memory_are_listed_unless_the_store_has_their_id(
    filled_store: FilledStore, repository: DocumentRepository
) -> None:
    for doc_id in "ac":
        repository.hold(document(doc_id, title="held"))
    repository.hold(document("hidden", readers=Readers()))
    await filled_store.put(document("b", title="stored"))
    await filled_store.put(document("c", readers=Readers()))
    page = await repository.list_readable(any_of(caller()))
    assert [entry.head.title for entry in page.entries] == ["held", "stored"]


async def test_the_statement_finds_a_tenants_rows_with_an_index(
    postgres: PostgresDatabase,
) -> None:
    connection = await asyncpg.connect(postgres.owner_url)
    await connection.execute(
        "INSERT INTO mcp_tools_proxy.documents (tenant_id, doc_id, version, title, tags, "
        "page_count, section_count, text_chars, has_chunks, folded) "
        "SELECT 'tenant ' || n % 20, 'doc ' || n, '', '', '{}', 1, 0, 0, false, "
        "ARRAY['', 'doc ' || n] FROM generate_series(1, 5000) n"
    )
    await connection.execute("ANALYZE mcp_tools_proxy.documents")
    await connection.close()
    connection = await asyncpg.connect(postgres.url)
    async with connection.transaction():
        await connection.execute("SELECT set_config('mcp_tools_proxy.tenant', 'tenant 7', true)")
        rows = await connection.fetch(
            f"EXPLAIN {LIST_READABLE}", "tenant 7", "doc 3", "u", [], None, None, "", ["%4%"], 51
        )
    await connection.close()
    plan = "\n".join(row[0] for row in rows)
    assert "documents_pkey" in plan
