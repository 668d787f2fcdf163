import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_tools_proxy.documents.document_repository import WHOLE, DocumentRepository
from mcp_tools_proxy.documents.document_store import Wanted
from mcp_tools_proxy.documents.versions import head_of, version_of
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Chunk, Document, Hit, Readers, Section
from mcp_tools_proxy.domain.errors import AccessDenied, DocumentNotFound, ShuttingDown
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.builders import make_caller, make_document
from tests.support.document_stores import FilledStore

ACME = make_document(tenant_id="acme", pages=("the server of acme",))
GLOBEX = make_document(tenant_id="globex", pages=("the server of globex, a server",))


def of(tenant_id: str) -> Caller:
    return make_caller(tenant_id=tenant_id)


class Filled:
    """A repository over a store to be filled by a test."""

    def __init__(self, filled: FilledStore, *, hide: bool = False) -> None:
        self._filled = filled
        self.metrics = Metrics()
        self.repository = DocumentRepository(
            filled.store, cache_bytes=10**6, hide_foreign_documents=hide, metrics=self.metrics
        )

    async def put(self, *documents: Document) -> "Filled":
        for document in documents:
            await self._filled.put(document)
        return self

    async def remove(self, tenant_id: str, doc_id: str) -> None:
        await self._filled.remove((tenant_id, doc_id))

    async def text(self, tenant_id: str, doc_id: str = "doc", **caller: Any) -> str:
        reader = Caller(**{"tenant_id": tenant_id, "user_id": "u", **caller})
        found = await self.repository.find(reader, doc_id, Wanted(pages=(1, 1)))
        return found.pages(1, 1)[0]

    async def search(self, tenant_id: str, query: str, **caller: Any) -> list[str]:
        return [hit.snippet for hit in await self.hits(tenant_id, query, **caller)]

    async def hits(self, tenant_id: str, query: str, **caller: Any) -> tuple[Hit, ...]:
        reader = Caller(**{"tenant_id": tenant_id, "user_id": "u", **caller})
        found = await self.repository.find(reader, "doc", WHOLE)
        return (await self.repository.search(found, query, max_results=5)).hits


@pytest.fixture
def filled(filled_store: FilledStore) -> Iterator[Filled]:
    made = Filled(filled_store)
    yield made
    made.repository.close()


@pytest.fixture
def hiding(filled_store: FilledStore) -> Iterator[Filled]:
    made = Filled(filled_store, hide=True)
    yield made
    made.repository.close()


async def test_a_tenant_gets_its_own_document_when_two_share_an_id(filled: Filled) -> None:
    await filled.put(ACME, GLOBEX)
    assert [await filled.text("acme"), await filled.text("globex")] == [
        ACME.pages[0],
        GLOBEX.pages[0],
    ]


async def test_another_tenants_document_is_denied(filled: Filled) -> None:
    await filled.put(GLOBEX)
    with pytest.raises(AccessDenied):
        await filled.text("acme")


async def test_a_denial_reveals_nothing_about_the_owner(filled: Filled) -> None:
    await filled.put(make_document(tenant_id="globex", title="Merger"))
    with pytest.raises(AccessDenied) as denied:
        await filled.text("acme")
    assert "globex" not in denied.value.message
    assert "Merger" not in denied.value.message


async def test_a_missing_document_is_not_found(filled: Filled) -> None:
    await filled.put(ACME)
    with pytest.raises(DocumentNotFound):
        await filled.text("acme", "other")


@pytest.mark.parametrize("odd", ["\ud800", "a\x00", "\ufdd0", "x" * 10_000], ids=ascii)
async def test_an_invalid_id_is_not_found(filled: Filled, odd: str) -> None:
    await filled.put(ACME)
    for tenant_id, doc_id in (("acme", odd), (odd, "nobody's")):
        with pytest.raises(DocumentNotFound):
            await filled.text(tenant_id, doc_id)
    assert not await filled.repository.has_readers(odd)
    assert await filled.text("acme") == "the server of acme"


async def test_hidden_documents_of_others_look_like_missing_ones(hiding: Filled) -> None:
    with pytest.raises(DocumentNotFound) as nobodys:
        await hiding.text("acme")
    await hiding.put(GLOBEX)
    with pytest.raises(DocumentNotFound) as foreign:
        await hiding.text("acme")
    assert foreign.value.message == nobodys.value.message


async def test_a_message_quotes_the_id_safely(filled: Filled) -> None:
    with pytest.raises(DocumentNotFound) as missing:
        await filled.text("acme", 'a"b\n' + "x" * 300)
    assert r'"a\"b\n' in missing.value.message
    assert len(missing.value.message) < 400


@pytest.mark.requirement("T-07")
async def test_a_search_finds_only_the_tenants_own_text(filled: Filled) -> None:
    await filled.put(ACME, GLOBEX)
    assert await filled.search("acme", "server globex") == ["the server of acme"]


@pytest.mark.requirement("T-07")
async def test_another_tenants_text_does_not_change_a_score(filled: Filled) -> None:
    await filled.put(ACME)
    alone = await filled.hits("acme", "server")
    await filled.put(GLOBEX)
    await filled.search("globex", "server")
    together = await filled.hits("acme", "server")
    assert together == alone


async def test_parallel_searches_of_two_tenants_do_not_mix(filled: Filled) -> None:
    await filled.put(ACME, GLOBEX)
    tenants = ["acme", "globex"] * 10
    found = await asyncio.gather(*(filled.search(tenant, "server") for tenant in tenants))
    assert [tenant in hits[0] for tenant, hits in zip(tenants, found, strict=True)] == [True] * 20


async def test_a_search_in_another_tenants_document_is_denied(filled: Filled) -> None:
    await filled.put(GLOBEX)
    with pytest.raises(AccessDenied):
        await filled.search("acme", "server")


async def test_a_search_without_matches_is_empty(filled: Filled) -> None:
    await filled.put(ACME)
    assert await filled.search("acme", "absent") == []


async def test_the_next_call_reads_a_replaced_document(filled: Filled) -> None:
    await filled.put(ACME)
    await filled.search("acme", "server")
    await filled.put(make_document(tenant_id="acme", pages=("a new server",)))
    assert await filled.search("acme", "server") == ["a new server"]
    assert await filled.text("acme") == "a new server"


async def test_a_removed_document_is_not_found(filled: Filled) -> None:
    await filled.put(ACME)
    await filled.text("acme")
    await filled.remove("acme", "doc")
    with pytest.raises(DocumentNotFound):
        await filled.text("acme")


async def test_removing_one_tenants_document_keeps_the_others(filled: Filled) -> None:
    await filled.put(ACME, GLOBEX)
    await filled.remove("acme", "doc")
    with pytest.raises(AccessDenied):
        await filled.text("acme")
    assert await filled.text("globex") == GLOBEX.pages[0]


async def test_a_document_in_memory_is_used_if_the_store_lacks_it(filled: Filled) -> None:
    filled.repository.hold(make_document(tenant_id="acme", pages=("built in",)))
    assert await filled.text("acme") == "built in"
    with pytest.raises(AccessDenied):
        await filled.text("globex")
    await filled.put(ACME)
    assert await filled.text("acme") == ACME.pages[0]
    await filled.remove("acme", "doc")
    assert [await filled.text("acme"), await filled.text("acme")] == ["built in"] * 2


async def test_each_part_is_read_back_unchanged(filled: Filled) -> None:
    pages = tuple(f'page {n} «ж» "\\\n{chr(0x1F600)}' for n in range(1, 8))
    sections = {
        name: Section(section_id=name, title=f"about {name}", page_start=first, page_end=last)
        for name, first, last in [("b", 2, 4), ("a", 1, 1), ("ж", 5, 7)]
    }
    written = make_document(tenant_id="acme", pages=pages, sections=sections, tags=("x", "y"))
    await filled.put(written)
    span = await filled.repository.find(of("acme"), "doc", Wanted(pages=(2, 99)))
    assert span.pages(2, 7) == pages[1:]
    section = await filled.repository.find(of("acme"), "doc", Wanted(section_id="b"))
    assert section.pages(2, 4) == pages[1:4]
    listed = await filled.repository.find(of("acme"), "doc", Wanted(sections=True))
    assert listed.sections == sections
    assert list(listed.sections) == ["b", "a", "ж"]
    whole = await filled.repository.find(of("acme"), "doc", Wanted(whole=True))
    assert whole.document is not None
    assert version_of(whole.document) == whole.head.version == version_of(written)
    assert whole.head == head_of(written)


async def test_supplied_chunks_are_read_back_unchanged(filled: Filled) -> None:
    chunks = tuple(
        Chunk(chunk_id=f"c{n}", page=1, chunk_index=n, source=f"text {n}", start=0, end=6)
        for n in range(3)
    )
    await filled.put(make_document(tenant_id="acme", pages=("text",), own_chunks=chunks))
    whole = await filled.repository.find(of("acme"), "doc", Wanted(whole=True))
    assert (await filled.repository.chunks(whole)).chunks == chunks


async def test_its_repr_names_no_tenant(filled: Filled) -> None:
    await filled.put(ACME, GLOBEX)
    await filled.text("acme")
    assert "1 documents" in repr(filled.repository)
    assert "acme" not in repr(filled.repository)


async def test_a_closed_repository_can_read_but_not_search(filled: Filled) -> None:
    await filled.put(ACME)
    filled.repository.close()
    assert await filled.text("acme") == ACME.pages[0]
    with pytest.raises(ShuttingDown):
        await filled.search("acme", "server")


FOR_SOME = make_document(
    tenant_id="acme",
    pages=("the server of acme",),
    readers=Readers(users=frozenset({"ann"}), roles=frozenset({"audit", "it"})),
)
WITHOUT_READERS = make_document(tenant_id="acme", readers=Readers())


@pytest.mark.parametrize(
    ("user", "roles", "admitted"),
    [
        ("ann", (), True),
        ("bob", ("it",), True),
        ("", ("audit", "x"), True),
        ("bob", (), False),
        ("bob", ("x",), False),
        ("", (), False),
        ("audit", ("ann",), False),
    ],
)
async def test_only_listed_users_and_roles_can_read_a_document(
    filled: Filled, user: str, roles: tuple[str, ...], *, admitted: bool
) -> None:
    await filled.put(FOR_SOME)
    for _ in range(2):  # cold and cached
        for call in (
            filled.text("acme", user_id=user, roles=roles),
            filled.search("acme", "server", user_id=user, roles=roles),
        ):
            if admitted:
                assert await call
                continue
            with pytest.raises(AccessDenied):
                await call


async def test_a_document_with_empty_readers_is_unreadable(filled: Filled) -> None:
    await filled.put(WITHOUT_READERS)
    with pytest.raises(AccessDenied):
        await filled.text("acme")


@pytest.mark.parametrize("hide", [False, True])
async def test_a_user_without_access_gets_the_same_error_as_another_tenant(
    filled_store: FilledStore, *, hide: bool
) -> None:
    filled = await Filled(filled_store, hide=hide).put(FOR_SOME)
    refusals = []
    for tenant in ("acme", "globex"):
        with pytest.raises((AccessDenied, DocumentNotFound)) as refused:
            await filled.text(tenant)
        refusals.append((refused.value.code, refused.value.message, refused.value.details))
    assert refusals[0] == refusals[1]
    filled.repository.close()


async def test_new_readers_apply_immediately(filled: Filled) -> None:
    await filled.put(ACME)
    assert await filled.search("acme", "server")
    assert not await filled.repository.has_readers("acme")
    await filled.put(FOR_SOME)
    assert await filled.repository.has_readers("acme")
    assert not await filled.repository.has_readers("globex")
    with pytest.raises(AccessDenied):
        await filled.search("acme", "server")
    with pytest.raises(AccessDenied):
        await filled.text("acme")
    await filled.put(ACME)
    assert not await filled.repository.has_readers("acme")
    assert await filled.text("acme") == ACME.pages[0]


async def test_new_readers_keep_texts_and_index_in_memory(filled: Filled) -> None:
    await filled.put(ACME)
    await filled.search("acme", "server")
    await filled.put(FOR_SOME)
    assert await filled.search("acme", "server", user_id="ann")
    assert filled.metrics.registry.get_sample_value("mcp_proxy_search_index_builds_total") == 1
