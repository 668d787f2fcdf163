"""What every DocumentRepository keeps: tenants see their own documents and nothing else."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.memory_repository import InMemoryRepository
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document, Readers
from mcp_tools_proxy.domain.errors import AccessDenied, DocumentNotFound, ShuttingDown
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.builders import make_caller, make_document

ACME = make_document(tenant_id="acme", pages=("the server of acme",))
GLOBEX = make_document(tenant_id="globex", pages=("the server of globex, a server",))


def of(tenant_id: str) -> Caller:
    return make_caller(tenant_id=tenant_id)


MakeRepository = Callable[..., InMemoryRepository]


@pytest.fixture
def make_repository() -> Iterator[MakeRepository]:
    made: list[InMemoryRepository] = []

    def make(
        *documents: Document, hide: bool = False, metrics: Metrics | None = None
    ) -> InMemoryRepository:
        repository = InMemoryRepository(
            documents=documents, hide_foreign_documents=hide, metrics=metrics or Metrics()
        )
        made.append(repository)
        return repository

    yield make
    for repository in made:
        repository.close()


async def test_a_tenant_gets_its_own_of_two_documents_with_one_id(
    make_repository: MakeRepository,
) -> None:
    repository: DocumentRepository = make_repository(ACME, GLOBEX)
    assert await repository.get(of("acme"), "doc") is ACME
    assert await repository.get(of("globex"), "doc") is GLOBEX


async def test_a_document_of_others_only_is_denied(make_repository: MakeRepository) -> None:
    with pytest.raises(AccessDenied):
        await make_repository(GLOBEX).get(of("acme"), "doc")


async def test_a_denial_says_nothing_about_the_owner(make_repository: MakeRepository) -> None:
    document = make_document(tenant_id="globex", title="Merger")
    with pytest.raises(AccessDenied) as denied:
        await make_repository(document).get(of("acme"), "doc")
    assert "globex" not in denied.value.message
    assert "Merger" not in denied.value.message


async def test_a_document_of_nobody_is_not_found(make_repository: MakeRepository) -> None:
    with pytest.raises(DocumentNotFound):
        await make_repository(ACME).get(of("acme"), "other")


async def test_hidden_documents_of_others_look_like_nobodys(
    make_repository: MakeRepository,
) -> None:
    with pytest.raises(DocumentNotFound) as foreign:
        await make_repository(GLOBEX, hide=True).get(of("acme"), "doc")
    with pytest.raises(DocumentNotFound) as nobodys:
        await make_repository(hide=True).get(of("acme"), "doc")
    assert foreign.value.message == nobodys.value.message


async def test_a_message_quotes_the_id_safely(make_repository: MakeRepository) -> None:
    with pytest.raises(DocumentNotFound) as missing:
        await make_repository().get(of("acme"), 'a"b\n' + "x" * 300)
    assert r'"a\"b\n' in missing.value.message
    assert len(missing.value.message) < 400


@pytest.mark.requirement("T-07")
async def test_a_search_finds_only_the_tenants_own_text(make_repository: MakeRepository) -> None:
    repository = make_repository(ACME, GLOBEX)
    hits = await repository.search(of("acme"), "doc", "server globex", max_results=5)
    assert [hit.snippet for hit in hits] == ["the server of acme"]


@pytest.mark.requirement("T-07")
async def test_another_tenants_text_does_not_move_a_score(make_repository: MakeRepository) -> None:
    alone, together = make_repository(ACME), make_repository(ACME, GLOBEX)
    await together.search(of("globex"), "doc", "server", max_results=5)
    assert await together.search(of("acme"), "doc", "server", max_results=5) == await alone.search(
        of("acme"), "doc", "server", max_results=5
    )


async def test_searches_of_two_tenants_at_once_do_not_mix(make_repository: MakeRepository) -> None:
    repository = make_repository(ACME, GLOBEX)
    tenants = ["acme", "globex"] * 10
    found = await asyncio.gather(
        *(repository.search(of(tenant), "doc", "server", max_results=1) for tenant in tenants)
    )
    assert [tenant in hits[0].snippet for tenant, hits in zip(tenants, found, strict=True)] == [
        True
    ] * 20


async def test_a_search_in_a_foreign_document_is_denied(make_repository: MakeRepository) -> None:
    with pytest.raises(AccessDenied):
        await make_repository(GLOBEX).search(of("acme"), "doc", "server", max_results=5)


async def test_a_search_that_finds_nothing_is_empty(make_repository: MakeRepository) -> None:
    assert await make_repository(ACME).search(of("acme"), "doc", "absent", max_results=5) == ()


async def test_a_replaced_document_is_what_the_next_search_reads(
    make_repository: MakeRepository,
) -> None:
    repository = make_repository(ACME)
    await repository.search(of("acme"), "doc", "server", max_results=5)
    repository.put(make_document(tenant_id="acme", pages=("a new server",)))
    hits = await repository.search(of("acme"), "doc", "server", max_results=5)
    assert [hit.snippet for hit in hits] == ["a new server"]


async def test_a_replaced_document_counts_once(make_repository: MakeRepository) -> None:
    repository = make_repository(ACME, ACME, GLOBEX)
    assert len(repository) == 2


async def test_a_removed_document_is_of_nobody(make_repository: MakeRepository) -> None:
    repository = make_repository(ACME)
    repository.put(ACME)
    repository.remove("acme", "doc")
    with pytest.raises(DocumentNotFound):
        await repository.get(of("acme"), "doc")


async def test_removing_one_tenants_document_leaves_the_others(
    make_repository: MakeRepository,
) -> None:
    repository = make_repository(ACME, GLOBEX)
    repository.remove("acme", "doc")
    with pytest.raises(AccessDenied):
        await repository.get(of("acme"), "doc")
    assert await repository.get(of("globex"), "doc") is GLOBEX


def test_removing_what_is_not_there_changes_nothing(make_repository: MakeRepository) -> None:
    repository = make_repository(ACME)
    repository.remove("globex", "doc")
    assert len(repository) == 1


def test_the_number_of_documents_is_a_metric(make_repository: MakeRepository) -> None:
    metrics = Metrics()
    make_repository(ACME, GLOBEX, metrics=metrics).remove("acme", "doc")
    assert metrics.registry.get_sample_value("mcp_proxy_documents") == 1


def test_its_repr_counts_and_names_no_tenant(make_repository: MakeRepository) -> None:
    shown = repr(make_repository(ACME, GLOBEX))
    assert "2 documents of 2 tenants" in shown
    assert "acme" not in shown


async def test_a_closed_repository_still_reads_and_no_longer_searches(
    make_repository: MakeRepository,
) -> None:
    repository = make_repository(ACME)
    repository.close()
    assert await repository.get(of("acme"), "doc") is ACME
    with pytest.raises(ShuttingDown):
        await repository.search(of("acme"), "doc", "server", max_results=5)


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
async def test_a_document_with_readers_is_for_these_users_and_roles(
    make_repository: MakeRepository, user: str, roles: tuple[str, ...], *, admitted: bool
) -> None:
    repository = make_repository(FOR_SOME)
    caller = Caller(tenant_id="acme", user_id=user, roles=roles)
    if admitted:
        assert await repository.get(caller, "doc") is FOR_SOME
        assert await repository.search(caller, "doc", "server", max_results=1)
        return
    with pytest.raises(AccessDenied):
        await repository.get(caller, "doc")
    with pytest.raises(AccessDenied):
        await repository.search(caller, "doc", "server", max_results=1)


async def test_empty_readers_are_nobody(make_repository: MakeRepository) -> None:
    with pytest.raises(AccessDenied):
        await make_repository(WITHOUT_READERS).get(of("acme"), "doc")


@pytest.mark.parametrize("hide", [False, True])
async def test_who_is_no_reader_is_told_what_another_tenant_is(
    make_repository: MakeRepository, *, hide: bool
) -> None:
    repository = make_repository(FOR_SOME, hide=hide)
    refusals = []
    for tenant in ("acme", "globex"):
        with pytest.raises((AccessDenied, DocumentNotFound)) as refused:
            await repository.get(of(tenant), "doc")
        refusals.append((refused.value.code, refused.value.message, refused.value.details))
    assert refusals[0] == refusals[1]


async def test_new_readers_are_in_force_at_once(make_repository: MakeRepository) -> None:
    repository = make_repository(ACME)
    assert await repository.search(of("acme"), "doc", "server", max_results=1)
    assert not repository.has_readers("acme")
    repository.put(FOR_SOME)
    assert repository.has_readers("acme")
    with pytest.raises(AccessDenied):
        await repository.search(of("acme"), "doc", "server", max_results=1)
    repository.put(ACME)
    assert not repository.has_readers("acme")
    assert await repository.get(of("acme"), "doc") is ACME
