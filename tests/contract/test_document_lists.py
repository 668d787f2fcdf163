import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from mcp_tools_proxy.documents.document_filter import parse_filter
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import HEAD_ONLY, CatalogQuery, fold, words_of
from mcp_tools_proxy.documents.postgres.rows import LIST_READABLE, filter_values
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, Readers
from mcp_tools_proxy.domain.errors import AccessDenied, DocumentNotFound, DocumentRefused
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
            f"EXPLAIN {LIST_READABLE}",
            *("tenant 7", "doc 3", "u", [], None, None, "", ["%4%"]),
            *(datetime.now(UTC), *filter_values(None), 51),
        )
    await connection.close()
    plan = "\n".join(row[0] for row in rows)
    assert "documents_pkey" in plan


FILTERED: dict[str, dict[str, Any]] = {
    "plan": {"tags": ("HR", "Draft"), "language": "de-AT", "date": "2027-01-31"},
    "note": {"tags": ("hr",), "language": "de", "metadata": {"year": 2027, "open": True}},
    "rule": {"tags": ("law",), "language": "den", "date": "2026-12-31"},
    "list": {"metadata": {"year": 2020.5, "by": ("Ann", "bob"), "case\x00": "A-1", "open": "True"}},
    "text": {"metadata": {"year": "2027", "case": "\x00"}, "date": "2027-02-01"},
}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, ["list", "note", "plan", "rule", "text"]),
        ({"tags": {"any": ["hr", "Law"]}}, ["note", "plan", "rule"]),
        ({"tags": ["hr"]}, ["note", "plan"]),
        ({"tags": "law"}, ["rule"]),
        ({"tags": {"any": []}}, []),
        ({"tags": {"all": ["DRAFT", "hr"]}}, ["plan"]),
        ({"tags": {"any": ["hr"], "not": ["draft"]}}, ["note"]),
        ({"tags": {"not": ["hr"]}}, ["list", "rule", "text"]),
        ({"language": "DE"}, ["note", "plan"]),
        ({"language": "de-at"}, ["plan"]),
        ({"language": "d_n"}, None),
        ({"date": {"from": "2027-01-31"}}, ["plan", "text"]),
        ({"date": {"to": "2027-01-31"}}, ["plan", "rule"]),
        ({"date": {"from": "2027-01-01", "to": "2027-01-31"}}, ["plan"]),
        ({"metadata": {"year": 2027}}, ["note", "text"]),
        ({"metadata": {"year": "2027"}}, ["note", "text"]),
        ({"metadata": {"year": [2027.0, 2020.5]}}, ["list", "note", "text"]),
        ({"metadata": {"year": {"min": 2000}}}, ["list", "note"]),
        ({"metadata": {"year": {"min": 2020.5, "max": 2026}}}, ["list"]),
        ({"metadata": {"year": {"max": 2020}}}, []),
        ({"metadata": {"year": {"min": 2027}, "open": True}}, ["note"]),
        ({"metadata": {"open": "true"}}, ["list", "note"]),
        ({"metadata": {"by": "ANN"}}, ["list"]),
        ({"metadata": {"by": {"min": 1}}}, []),
        ({"metadata": {"case": "\x00"}}, ["text"]),
        ({"metadata": {"case\x00": "a-1"}}, ["list"]),
        ({"metadata": {"other": ""}}, []),
        ({"metadata": {"year": []}}, []),
        ({"tags": {"any": ["hr"]}, "language": "de", "metadata": {"year": {"min": 1}}}, ["note"]),
        ({"tags": {"any": ["\ud800"]}}, []),
    ],
    ids=str,
)
async def test_a_filter_limits_lists(
    filled_store: FilledStore,
    repository: DocumentRepository,
    wanted: dict[str, Any],
    expected: list[str] | None,
) -> None:
    for doc_id, fields in FILTERED.items():
        await filled_store.put(document(doc_id, **fields))
    await filled_store.put(replace(make_document(tenant_id="other", doc_id="x"), tags=("hr",)))
    await filled_store.put(document("hidden", readers=Readers(), **FILTERED["plan"]))
    if expected is None:
        with pytest.raises(ValueError, match="language"):
            parse_filter(wanted)
        return
    query = any_of(caller(), filter=parse_filter(wanted))
    assert await ids(repository, query) == expected
    assert sorted(await repository.readable_ids(replace(query, limit=0))) == expected
    bound = any_of(caller(documents=frozenset({"note", "plan"})), filter=parse_filter(wanted))
    assert await ids(repository, bound) == [it for it in expected if it in ("note", "plan")]


async def test_a_filter_applies_before_the_limit(
    filled_store: FilledStore, repository: DocumentRepository
) -> None:
    for number in range(9):
        await filled_store.put(document(f"{number}", tags=("odd",) if number % 2 else ()))
    query = any_of(caller(), filter=parse_filter({"tags": "odd"}), limit=3)
    page = await repository.list_readable(query)
    assert ([it.head.doc_id for it in page.entries], page.has_more) == (["1", "3", "5"], True)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"tag": ["a"]}, "tag is not a key"),
        ({"tags": {"none": ["a"]}}, "tags.none is not a key"),
        ({"metadata": {"year": {"mn": 1}}}, "metadata.year.mn is not a key"),
        ({"date": {"from": "2027"}}, "date.from: should be a date"),
        ({"date": {"since": "2027-01-01"}}, "date.since is not a key"),
        ({"tags": {"any": ["a"] * 101}}, "tags.any: should have 100 items or fewer"),
        ({"metadata": {str(it): 1 for it in range(21)}}, "metadata"),
        ({"language": 5}, "language: should be a valid string"),
        ("{", "should be an object; the keys are tags"),
        ([], "should be a JSON object"),
        (5, "should be a JSON object"),
    ],
    ids=str,
)
def test_an_invalid_filter_is_refused(given: object, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse_filter(given)


def test_a_filter_can_be_its_json_text() -> None:
    assert parse_filter('{"tags": "a"}') == parse_filter({"tags": {"any": ["a"]}})


async def test_a_document_leaves_all_reads_when_it_expires(
    filled_store: FilledStore, repository: DocumentRepository
) -> None:
    now = datetime.now(UTC)
    await filled_store.put(document("soon", expires_at=now + timedelta(hours=1)))
    await filled_store.put(document("gone", expires_at=now - timedelta(seconds=1)))
    await filled_store.put(document("kept"))
    assert await ids(repository, any_of(caller())) == ["kept", "soon"]
    later = any_of(caller(), now=now + timedelta(hours=1))
    assert await ids(repository, later) == ["kept"]
    assert await repository.readable_ids(later) == {"kept"}
    assert (await repository.find(caller(), "soon")).head.doc_id == "soon"
    with pytest.raises(DocumentNotFound):
        await repository.find(caller(), "gone")
    with pytest.raises(DocumentNotFound):
        await repository.find_version(caller(), "gone", "0" * 64, HEAD_ONLY)
    with pytest.raises(DocumentNotFound):
        await repository.find_for_any_reader(caller(), "gone")


async def test_a_cached_document_expires(filled_store: FilledStore) -> None:
    times = [datetime.now(UTC)]
    cached = DocumentRepository(
        filled_store.store,
        cache_bytes=10**6,
        hide_foreign_documents=False,
        metrics=Metrics(),
        clock=lambda: times[-1],
    )
    await filled_store.put(document("soon", expires_at=times[0] + timedelta(hours=1)))
    await cached.find(caller(), "soon")
    times.append(times[0] + timedelta(hours=1))
    with pytest.raises(DocumentRefused):
        await cached.find(caller(), "soon")
    cached.close()


async def test_another_tenants_document_is_denied_until_it_expires(
    filled_store: FilledStore, repository: DocumentRepository
) -> None:
    now = datetime.now(UTC)
    theirs = make_document(tenant_id="other", doc_id="x")
    for expires_at, refusal in (
        (now + timedelta(hours=1), AccessDenied),
        (now - timedelta(hours=1), DocumentNotFound),
        (None, AccessDenied),
    ):
        await filled_store.put(replace(theirs, expires_at=expires_at))
        with pytest.raises(refusal):
            await repository.find(caller(), "x")
