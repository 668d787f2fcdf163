"""Ids of a folder's documents, and the documents whose files are gone."""

import unicodedata
from collections.abc import Mapping

from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tools_proxy.cli.documents.import_plan import ImportPlan, plan_import
from mcp_tools_proxy.cli.documents.source_folder import FileStamp, SourceFiles
from mcp_tools_proxy.documents.folder.file_scan import canonical_name
from mcp_tools_proxy.domain.document import DocumentHead, DocumentSource
from mcp_tools_proxy.wire.identifiers import is_identifier

STAMP = FileStamp(1, 2, 3)
NFC, NFD = (unicodedata.normalize(form, "café.md") for form in ("NFC", "NFD"))


def head(doc_id: str, path: str | None = None, source: str = "share") -> DocumentHead:
    return DocumentHead(
        tenant_id="t",
        doc_id=doc_id,
        title=doc_id,
        page_count=1,
        version="v",
        source=None if path is None else DocumentSource(source, path, "digest", "1"),
    )


def plan(
    *paths: str,
    stored: tuple[DocumentHead, ...] = (),
    include: tuple[str, ...] = (),
    failed: tuple[str, ...] = (),
    adopts: bool = False,
) -> ImportPlan:
    found = SourceFiles(files=dict.fromkeys(paths, STAMP), failed=dict.fromkeys(failed, "reason"))
    return plan_import(
        found,
        stored,
        tenant_id="t",
        source="share",
        folder=None,
        include=include,
        adopts=adopts,
    )


def ids(planned: ImportPlan) -> Mapping[str, str]:
    return {it.path: it.doc_id for it in planned.files}


def gone(planned: ImportPlan) -> list[str]:
    return [it.doc_id for it in planned.gone]


def test_an_id_is_the_relative_path_without_suffix() -> None:
    assert ids(plan("hr/Leave policy.pdf", "a.md")) == {
        "a.md": "a",
        "hr/Leave policy.pdf": "hr/Leave policy",
    }


def test_similar_paths_have_different_ids() -> None:
    paths = ("a/b.md", "a-b.md", "a.md", "A.md", "a.txt", NFC, NFD)
    found = ids(plan(*paths))
    assert len({unicodedata.normalize("NFC", it).casefold() for it in found.values()}) == len(paths)


@example({"."})
@example({".", "..", "a."})
@given(st.sets(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1)))
def test_any_names_have_valid_ids_which_stay(names: set[str]) -> None:
    paths = [f"{'long folder ' * 30}/{name}.md" for name in names] + [f"{it}.md" for it in names]
    first = ids(plan(*paths))
    folded = {unicodedata.normalize("NFC", it).casefold() for it in first.values()}
    assert len(folded) == len(paths)
    assert all(is_identifier(it) and canonical_name("t", it) for it in first.values())
    stored = tuple(head(doc_id, path) for path, doc_id in first.items())
    again = plan(*paths, "A.md", stored=stored)
    assert first.items() <= ids(again).items()
    assert gone(again) == []


def test_earlier_ids_stay() -> None:
    stored = (head("chosen earlier", "a.md"), head("a", "b.md"))
    assert ids(plan("a.md", "b.md", stored=stored)) == {"a.md": "chosen earlier", "b.md": "a"}


def test_a_name_in_another_unicode_form_keeps_its_document() -> None:
    planned = plan(NFC, stored=(head("menu", NFD),))
    assert (ids(planned), gone(planned)) == ({NFC: "menu"}, [])


def test_documents_of_uploads_and_other_sources_are_not_replaced() -> None:
    stored = (head("a"), head("B", "b.md", source="other"))
    planned = plan("a.md", "b.md", stored=stored)
    assert ids(planned) == {"a.md": "a.md", "b.md": "b.md"}
    assert [it.head for it in planned.files] == [None, None]


def test_a_document_without_source_can_be_adopted() -> None:
    stored = (head("a"), head("b", "b.md", source="other"))
    planned = plan("a.md", "b.md", stored=stored, adopts=True)
    assert ids(planned) == {"a.md": "a", "b.md": "b.md"}
    assert [it.head for it in planned.files] == [stored[0], None]


def test_only_documents_of_the_source_without_a_file_are_gone() -> None:
    stored = (head("a", "a.md"), head("b", "b.md"), head("c"), head("d", "d.md", source="other"))
    planned = plan("a.md", stored=stored)
    assert (gone(planned), planned.stored) == (["b"], 2)


def test_files_that_are_not_included_are_not_gone() -> None:
    stored = (head("a", "x/a.md"), head("b", "b.txt"), head("c", "c.md"))
    assert gone(plan("x/a.md", stored=stored, include=("*.md",))) == ["c"]


def test_files_in_a_folder_that_cannot_be_listed_are_not_gone() -> None:
    stored = (head("a", "x/y/a.md"), head("b", "xy/b.md"), head("c", "c.md"))
    assert gone(plan(stored=stored, failed=("x", "c.md"))) == ["b"]
