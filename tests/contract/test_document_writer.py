"""Guarantees of every DocumentWriter: changes are atomic and apply only to the expected version."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.documents.document_facts import EditableFacts
from mcp_tools_proxy.documents.document_file import InvalidDocument, document_path
from mcp_tools_proxy.documents.document_writer import (
    DocumentWriter,
    Expected,
    NoSuchDocument,
    ReadOnlyDocuments,
    VersionConflict,
    WriteFailed,
)
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_writer import FolderWriter
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.documents.versions import head_of, rights_tag, version_of
from mcp_tools_proxy.domain.document import (
    Chunk,
    Document,
    DocumentSource,
    ImportWarning,
    Readers,
    Section,
)
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.postgres_databases import Databases

KEY = ("acme", "doc")
ANN = Readers(users=frozenset({"ann"}))
IT = Readers(roles=frozenset({"it"}))

FACTS: dict[str, Any] = {
    "text_format": "markdown",
    "date": "2027-01-31",
    "metadata": {
        "case": "A\x00-1",
        "n": 7,
        "rate": 1.0,
        "small": 1e-7,
        "open": True,
        "by": ("a", "b"),
    },
    "warnings": (ImportWarning("hidden_text", "Three letters are hidden."),),
    "source": DocumentSource("share", "a/b.pdf", "0" * 64, "1"),
    "expires_at": datetime(2027, 1, 31, 12, tzinfo=UTC),
    "is_untrusted": True,
}


def document(
    text: str = "one",
    *,
    doc_id: str = "doc",
    tenant_id: str = "acme",
    readers: Readers | None = None,
) -> Document:
    return make_document(tenant_id=tenant_id, doc_id=doc_id, pages=(text,), readers=readers)


def folder_writer(tmp_path: Path) -> FolderWriter:
    root = tmp_path / "documents"
    return FolderWriter(FolderStore(root, ScanCache(tmp_path / "cache", root)))


@pytest.fixture(params=["folder", "postgres"])
async def writer(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> AsyncIterator[DocumentWriter]:
    made: DocumentWriter = folder_writer(tmp_path)
    if request.param == "postgres":
        made = PostgresWriter(Database((await databases.new()).url, timeout_s=BOUND_S))
    yield made
    await made.close()


async def put(
    writer: DocumentWriter, written: Document, *, expected: Expected | str = Expected.ANYTHING
) -> None:
    await writer.put(written, expected=expected, keep_readers=False)


async def test_a_stored_document_is_read_back_completely(writer: DocumentWriter) -> None:
    written = make_document(
        tenant_id="acme",
        doc_id="a/b «ж» 'x'",
        title="Title 'with' \"quotes\"",
        pages=("one\n\U0001f600", "", "trois é"),
        sections={
            "b": Section(section_id="b", title="B", page_start=1, page_end=3, end_char=2),
            "a": Section(section_id="a", title="A", page_start=2, page_end=2, start_char=0),
        },
        tags=("x", "y,z"),
        own_chunks=(
            Chunk(chunk_id="c", page=3, chunk_index=0, source="trois", start=0, end=5),
            Chunk(chunk_id="b", page=1, chunk_index=1, source="", start=0, end=0),
        ),
        readers=ANN,
        ocr=(None, 93, 0),
    )
    written = dataclasses.replace(written, **FACTS)
    head = await writer.put(written, expected=Expected.NOTHING, keep_readers=True)
    key = (written.tenant_id, written.doc_id)
    found = await writer.document(key)
    assert found is not None
    assert head == head_of(written) == await writer.head(key) == head_of(found)
    assert (list(found.sections), found.own_chunks) == (["b", "a"], written.own_chunks)
    assert {name: getattr(found, name) for name in FACTS} == FACTS
    assert (found.ocr, [head.ocr_confidence(page) for page in (0, 1, 2, 4)]) == (
        (None, 93, 0),
        [None, None, 93, None],
    )


@pytest.mark.parametrize("name", ["text_format", "date", "metadata"])
async def test_a_change_of_a_fact_about_the_text_is_a_new_version(
    writer: DocumentWriter, name: str
) -> None:
    await put(writer, document())
    await put(writer, dataclasses.replace(document(), **{name: FACTS[name]}))
    head = await writer.head(KEY)
    assert head is not None
    assert (head.version != version_of(document()), list(await writer.older_versions(KEY))) == (
        True,
        [version_of(document())],
    )


@pytest.mark.parametrize("name", ["warnings", "source", "expires_at", "is_untrusted"])
async def test_a_change_of_another_fact_is_stored_without_a_new_version(
    writer: DocumentWriter, name: str
) -> None:
    await put(writer, document())
    await put(writer, dataclasses.replace(document(), **{name: FACTS[name]}))
    found = await writer.document(KEY)
    assert found is not None
    assert getattr(found, name) == FACTS[name]
    assert (version_of(found), [*await writer.older_versions(KEY)]) == (version_of(document()), [])


async def test_only_a_change_of_facts_removes_the_mark_of_an_untrusted_document(
    writer: DocumentWriter,
) -> None:
    await put(writer, dataclasses.replace(document(), is_untrusted=True))
    await put(writer, document("two"))
    head = await writer.head(KEY)
    assert head is not None
    assert head.is_untrusted
    kept = await writer.set_facts(KEY, EditableFacts(tags=("t",)), expected=Expected.ANYTHING)
    assert kept.is_untrusted
    trusted = EditableFacts(is_untrusted=False)
    await writer.set_facts(KEY, trusted, expected=EditableFacts.of(kept).etag)
    head = await writer.head(KEY)
    assert head is not None
    assert not head.is_untrusted
    with pytest.raises(VersionConflict):
        await writer.set_facts(KEY, trusted, expected=EditableFacts.of(kept).etag)


async def test_chunks_are_optional(writer: DocumentWriter) -> None:
    for chunks in (None, ()):
        await put(writer, make_document(tenant_id="acme", own_chunks=chunks))
        found = await writer.document(KEY)
        assert found is not None
        assert found.own_chunks == chunks


async def test_a_text_may_contain_any_character(writer: DocumentWriter) -> None:
    """PDFs can contain U+0000 but PostgreSQL cannot; its replacement is also valid text."""
    odd = "a\x00b\ufdd0c\ufdd00\ufdd01\ufdd02"
    written = make_document(
        tenant_id="acme",
        title=odd,
        pages=(odd, "\x00"),
        sections={"s": Section(section_id="s", title=odd, page_start=1, page_end=1)},
        tags=(odd,),
        own_chunks=(Chunk(chunk_id="c", page=1, chunk_index=0, source=odd, start=0, end=len(odd)),),
    )
    await put(writer, written, expected=Expected.NOTHING)
    found = await writer.document(KEY)
    assert found is not None
    assert head_of(found) == head_of(written) == await writer.head(KEY)


@pytest.mark.parametrize("texts", [{"title": "\ud800"}, {"pages": ("\ud800",)}], ids=ascii)
async def test_an_invalid_unicode_text_is_refused(
    writer: DocumentWriter, texts: dict[str, Any]
) -> None:
    with pytest.raises(InvalidDocument):
        await put(writer, dataclasses.replace(document(), **texts))
    assert await writer.head(KEY) is None


async def test_a_new_document_must_not_exist(writer: DocumentWriter) -> None:
    await put(writer, document(), expected=Expected.NOTHING)
    with pytest.raises(VersionConflict) as conflict:
        await put(writer, document("two"), expected=Expected.NOTHING)
    assert conflict.value.head == head_of(document())
    await put(writer, document(tenant_id="globex"), expected=Expected.NOTHING)


async def test_the_expected_version_must_exist(writer: DocumentWriter) -> None:
    first = version_of(document())
    with pytest.raises(VersionConflict):
        await put(writer, document(), expected=first)
    await put(writer, document())
    await put(writer, document("two"), expected=first)
    with pytest.raises(VersionConflict):
        await put(writer, document("three"), expected=first)
    found = await writer.document(KEY)
    assert found is not None
    assert found.pages == ("two",)


async def test_only_one_of_two_changes_to_a_version_succeeds(writer: DocumentWriter) -> None:
    await put(writer, document())
    version = version_of(document())
    results = await asyncio.gather(
        *(put(writer, document(f"by {n}"), expected=version) for n in range(5)),
        return_exceptions=True,
    )
    assert [type(it) for it in results].count(type(None)) == 1
    assert [type(it) for it in results].count(VersionConflict) == 4


async def test_a_replaced_document_keeps_its_readers_on_request(
    writer: DocumentWriter,
) -> None:
    await put(writer, document(readers=ANN))
    for expected in (Expected.ANYTHING, version_of(document("two"))):
        head = await writer.put(document("two"), expected=expected, keep_readers=True)
        assert head.readers == ANN
    await put(writer, document("two"))
    found = await writer.head(KEY)
    assert found is not None
    assert found.readers is None


async def test_readers_are_changed_without_the_text(writer: DocumentWriter) -> None:
    await put(writer, document())
    head = await writer.set_readers(KEY, IT, expected=rights_tag(None))
    assert head == await writer.head(KEY)
    assert (head.readers, head.version) == (IT, version_of(document()))
    with pytest.raises(VersionConflict) as conflict:
        await writer.set_readers(KEY, ANN, expected=rights_tag(None))
    assert conflict.value.head == head
    await writer.set_readers(KEY, Readers(), expected=Expected.ANYTHING)
    await writer.set_readers(KEY, None, expected=rights_tag(Readers()))
    found = await writer.head(KEY)
    assert found is not None
    assert found.readers is None
    with pytest.raises(NoSuchDocument):
        await writer.set_readers(("globex", "doc"), ANN, expected=Expected.ANYTHING)


async def test_a_removed_document_is_not_found(writer: DocumentWriter) -> None:
    await put(writer, document())
    await put(writer, document(tenant_id="globex"))
    with pytest.raises(VersionConflict):
        await writer.remove(KEY, expected=version_of(document("two")))
    assert await writer.remove(KEY, expected=version_of(document())) == head_of(document())
    assert (await writer.head(KEY), await writer.document(KEY)) == (None, None)
    with pytest.raises(NoSuchDocument):
        await writer.remove(KEY, expected=Expected.ANYTHING)
    assert await writer.head(("globex", "doc")) is not None


async def test_documents_are_listed_in_pages_ordered_by_id(writer: DocumentWriter) -> None:
    ids = ["B", "a", "a b", "ж", "\U0001f600"]
    for doc_id in reversed(ids):
        await put(writer, document(doc_id=doc_id))
    await put(writer, document(tenant_id="globex"))
    listed: list[str] = []
    after = None
    while heads := await writer.list_heads("acme", after=after, limit=2):
        listed += [head.doc_id for head in heads]
        after = (heads[-1].tenant_id, heads[-1].doc_id)
    assert listed == ids
    assert await writer.problems() == {}


# Only for files


async def test_a_document_is_written_to_its_own_file_and_its_other_files_are_removed(
    tmp_path: Path,
) -> None:
    writer, removed = folder_writer(tmp_path), []
    writer = FolderWriter(
        writer._store, on_removed=lambda doc_id, path: removed.append((doc_id, path.name))
    )
    await put(writer, document())
    own = document_path(tmp_path / "documents", *KEY)
    own.rename(own.with_name("renamed.json"))
    await writer._store.load()
    await put(writer, document("two"))
    assert (removed, own.exists()) == ([("doc", "renamed.json")], True)
    assert writer.place(KEY) == str(own)
    await writer.close()


async def test_a_broken_file_is_replaced_only_with_explicit_readers(tmp_path: Path) -> None:
    writer = folder_writer(tmp_path)
    await put(writer, document(readers=ANN))
    document_path(tmp_path / "documents", *KEY).write_text("{")
    with pytest.raises(InvalidDocument, match="readers of the document are unknown"):
        await writer.put(document(), expected=Expected.ANYTHING, keep_readers=True)
    with pytest.raises(VersionConflict):
        await put(writer, document(), expected=Expected.NOTHING)
    await put(writer, document(readers=IT))
    found = await writer.head(KEY)
    assert found is not None
    assert found.readers == IT
    await writer.close()


async def test_a_broken_file_can_be_removed(tmp_path: Path) -> None:
    writer = folder_writer(tmp_path)
    await put(writer, document())
    document_path(tmp_path / "documents", *KEY).write_text("{")
    assert await writer.remove(KEY, expected=Expected.ANYTHING) is None
    with pytest.raises(NoSuchDocument):
        await writer.remove(KEY, expected=Expected.ANYTHING)
    await writer.close()


async def test_an_unwritable_folder_is_reported_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "documents").write_text("a file in the way")
    writer = folder_writer(tmp_path)
    with pytest.raises((WriteFailed, ReadOnlyDocuments), match="cannot be written"):
        await put(writer, document())
    await writer.close()
