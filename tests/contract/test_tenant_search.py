from pathlib import Path

from mcp_tools_proxy.documents.document_file import write_document
from mcp_tools_proxy.documents.search.tenant_search import MAX_COPIES
from mcp_tools_proxy.domain.document import Readers, Section
from tests.support.document_stores import FilledFolder, FilledStore
from tests.support.searching import ANN, caller, document, searching


async def test_readable_hits_are_found_among_a_thousand_better_unreadable_ones(
    folder: FilledFolder, tmp_path: Path
) -> None:
    for number in range(1000):
        secret = document(f"secret-{number}", "ladder ladder ladder", readers=ANN)
        write_document(tmp_path / "documents", secret, replace=False)
    readable = [f"open-{number}" for number in range(10)]
    for doc_id in readable:
        words = " ".join(["other words of a page"] * 20)
        await folder.put(document(doc_id, f"{words} with one ladder in it."))
    async with searching(folder, tmp_path / "cache") as made:
        await made.catch_up()
        assert await made.ids("ladder") == readable
        assert "secret" in (await made.ids("ladder", caller("ann"), max_results=1))[0]
        bound = caller("ann", documents=frozenset({"open-3", "gone"}))
        assert await made.ids("ladder", bound) == ["open-3"]


async def test_readable_hits_are_found_among_a_thousand_better_unreadable_pages(
    filled_store: FilledStore, tmp_path: Path
) -> None:
    await filled_store.put(document("secret", *["ladder ladder ladder"] * 1000, readers=ANN))
    readable = [f"open-{number}" for number in range(10)]
    for doc_id in readable:
        words = " ".join(["other words of a page"] * 20)
        await filled_store.put(document(doc_id, f"{words} with one ladder in it."))
    async with searching(filled_store, tmp_path / "cache") as made:
        await made.catch_up()
        assert await made.ids("ladder") == readable
        assert await made.ids("ladder", caller("ann"), max_results=1) == ["secret"]


async def test_a_search_uses_the_first_hundred_tags_of_a_document(
    filled_store: FilledStore, tmp_path: Path
) -> None:
    tags = tuple(f"tag{number}" for number in range(101))
    await filled_store.put(document("a", "a ladder", tags=tags))
    async with searching(filled_store, tmp_path / "cache") as made:
        await made.catch_up()
        assert await made.ids("ladder", tags=["tag99"]) == ["a"]
        assert await made.ids("ladder", tags=["tag100"]) == []


async def test_results_respect_readers_bound_documents_tags_and_ids(
    filled_store: FilledStore, tmp_path: Path
) -> None:
    roles = Readers(roles=frozenset({"audit", "größe"}))
    await filled_store.put(document("open", "a ladder", tags=("Maße", "b")))
    await filled_store.put(document("anns", "a ladder", readers=ANN, tags=("b",)))
    await filled_store.put(document("audits", "a ladder", readers=roles))
    await filled_store.put(document("nobodys", "a ladder", readers=Readers()))
    await filled_store.put(document("open", "a ladder of theirs", tenant_id="other"))
    async with searching(filled_store, tmp_path / "cache") as made:
        for tenant_id in ("acme", "other"):
            await made.catch_up(tenant_id)
        assert await made.ids("ladder") == ["open"]
        assert await made.ids("ladder", caller("")) == ["open"]
        assert await made.ids("ladder", caller("ann")) == ["anns", "open"]
        assert await made.ids("ladder", caller("audit")) == ["open"]
        assert await made.ids("ladder", caller("x", "ann", "audit")) == ["audits", "open"]
        bound = caller("ann", documents=frozenset({"anns", "nobodys"}))
        assert await made.ids("ladder", bound) == ["anns"]
        assert await made.ids("ladder", bound, doc_ids=["open"]) == []
        assert await made.ids("ladder", caller("ann"), tags=["MASSE"]) == ["open"]
        assert await made.ids("ladder", caller("ann"), tags=["B"]) == ["anns", "open"]
        assert await made.ids("ladder", doc_ids=["open", "anns"]) == ["open"]
        assert await made.ids("theirs") == []
        assert await made.ids("ladder", caller(tenant_id="other")) == ["open"]
        assert await made.ids("ladder", caller(tenant_id="none")) == []


async def test_content_changed_since_indexing_is_not_shown(
    filled_store: FilledStore, tmp_path: Path
) -> None:
    for doc_id in ("withdrawn", "replaced", "removed", "left"):
        await filled_store.put(document(doc_id, "a ladder ladder", "a ladder"))
    await filled_store.put(document("last", "much more than a ladder is on this page", "none"))
    async with searching(filled_store, tmp_path / "cache") as made:
        await made.catch_up()
        await filled_store.put(document("withdrawn", "a ladder ladder", "a ladder", readers=ANN))
        await filled_store.put(document("replaced", "only chairs", "and tables"))
        await filled_store.remove(("acme", "removed"))
        assert set(await made.ids("ladder", max_results=3)) == {"left", "last"}
        await made.catch_up()
        assert set(await made.ids("ladder")) == {"left", "last"}
        assert await made.ids("chairs") == ["replaced"]
        assert "withdrawn" in await made.ids("ladder", caller("ann"))
        await filled_store.put(document("withdrawn", "a ladder ladder", "a ladder"))
        await made.catch_up()
        assert "withdrawn" in await made.ids("ladder")


async def test_a_query_finds_documents_of_several_languages(
    folder: FilledFolder, tmp_path: Path
) -> None:
    texts = {
        "de": "Die Installation der Pakete war nicht schwer, wenn man die Anleitung hat.",
        "en": "Installing the packages is easy when you have the manual.",
        "ru": "Установка пакетов выполняется без перезагрузки.",
        "zh": "安装软件包之前请检查证书。",
    }
    for language, text in texts.items():
        await folder.put(document(language, text, language=language))
    async with searching(folder, tmp_path / "cache") as made:
        await made.catch_up()
        assert await made.ids("wie werden die Pakete installiert") == ["de", "en"]
        assert await made.ids("how do I install a package") == ["de", "en"]
        assert await made.ids("установить пакеты") == ["ru"]
        assert await made.ids("如何安装软件包") == ["zh"]
        assert await made.ids("manvual") == ["en"]
        assert await made.ids("the") == ["en"]


async def test_words_of_other_tenants_change_no_score(folder: FilledFolder, tmp_path: Path) -> None:
    await folder.put(document("a", "a ladder", "a chair"))
    async with searching(folder, tmp_path / "cache") as made:
        await made.catch_up()
        before = await made.find("ladder chair")
        for number in range(5):
            await folder.put(document(f"{number}", "a ladder", tenant_id="other"))
        await made.catch_up("other")
        await made.catch_up()
        after = await made.find("ladder chair")
        assert [it.hit for it in before.places] == [it.hit for it in after.places]
        assert len(after.places) == 2


async def test_a_large_document_delays_no_smaller_one(folder: FilledFolder, tmp_path: Path) -> None:
    for tenant_id in ("acme", "second"):
        await folder.put(document("large", "a ladder " * 10, tenant_id=tenant_id))
    await folder.put(document("small", "a ladder"))
    await folder.put(document("others", "a ladder", tenant_id="other"))
    async with searching(folder, tmp_path / "cache", batch_chars=20) as made:
        made.documents.gated = {"large"}
        made.documents.gate.clear()
        async with made.following():
            for tenant_id in ("acme", "second", "other"):
                await made.find("ladder", caller(tenant_id=tenant_id))
            assert await made.ids("ladder") == ["small"]
            assert await made.ids("ladder", caller(tenant_id="other")) == ["others"]


async def test_hits_come_from_different_documents_and_pages(
    folder: FilledFolder, tmp_path: Path
) -> None:
    await folder.put(document("long", *["a ladder"] * 30))
    await folder.put(document("short", "a ladder", title=""))
    async with searching(folder, tmp_path / "cache") as made:
        await made.catch_up()
        assert await made.ids("ladder", max_results=2) == ["long", "short"]


async def test_a_hit_names_its_section_page_and_chunk(
    filled_store: FilledStore, tmp_path: Path
) -> None:
    page = "Intro words. Second part: a ladder leans here."
    sections = {
        "s1": Section(section_id="s1", title="One", page_start=1, page_end=1, end_char=13),
        "s2": Section(section_id="s2", title="Two", page_start=1, page_end=1, start_char=13),
    }
    await filled_store.put(document("d", page, sections=sections))
    async with searching(filled_store, tmp_path / "cache") as made:
        await made.catch_up()
        ((_, hit, _),) = (await made.find("ladder")).places
        assert (hit.section_id, hit.page, hit.chunk_id) == ("s2", 1, "p1-c1")
        assert hit.span is not None
        assert page[hit.span.start_char : hit.span.end_char] == hit.snippet
        ((_, hit, _),) = (await made.find("intro")).places
        assert hit.section_id == "s1"


async def test_documents_with_the_same_pages_are_one_hit(
    filled_store: FilledStore, tmp_path: Path
) -> None:
    pages = ("a ladder", "a chair")
    for number in range(MAX_COPIES + 60):
        await filled_store.put(document(f"copy{number:03}", *pages, title=f"Copy {number}"))
    await filled_store.put(document("other", "a ladder and a table, and a lamp beside it"))
    await filled_store.put(document("secret", *pages, readers=Readers(users=frozenset({"ann"}))))
    async with searching(filled_store, tmp_path / "cache") as made:
        await made.catch_up()
        found = await made.find("ladder")
        names = {place.document.head.doc_id for place in found.places}
        copies = [copy for place in found.places for copy in place.copies]
        assert "other" in names
        assert len(names) == 2
        assert len(set(copies)) == len(copies) == MAX_COPIES
        assert "secret" not in {*names, *copies}
        assert not names & set(copies)
