import hashlib
from dataclasses import astuple, replace

from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from mcp_tools_proxy.documents.versions import version_of
from mcp_tools_proxy.domain.document import Chunk, Section
from tests.support.builders import make_document

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ['"', "\\", "a\u0000b", "\x7f", "\u2028", "\U0001f600", "жук\n\r\t\b\f"]
)


def test_a_language_changes_the_version_and_its_absence_does_not() -> None:
    document = make_document()
    german = replace(document, language="de")
    assert version_of(german) != version_of(document)
    assert version_of(german) != version_of(replace(document, language="fr"))


@given(
    title=TEXTS,
    tags=st.lists(TEXTS, max_size=2).map(tuple),
    pages=st.lists(TEXTS, min_size=1, max_size=4).map(tuple),
    titles=st.lists(TEXTS, max_size=3),
    chunks=st.none() | st.lists(TEXTS, max_size=3),
)
def test_the_version_is_the_hash_of_the_content_as_compact_json(
    title: str,
    tags: tuple[str, ...],
    pages: tuple[str, ...],
    titles: list[str],
    chunks: list[str] | None,
) -> None:
    sections = [
        Section(
            section_id=f"s{place}", title=name, page_start=1, page_end=1, end_char=place or None
        )
        for place, name in enumerate(titles)
    ]
    own_chunks = [
        Chunk(
            chunk_id=f"{text}-{place}",
            page=1,
            chunk_index=place,
            source=text,
            start=0,
            end=len(text),
        )
        for place, text in enumerate(chunks or ())
    ]
    document = make_document(
        title=title,
        tags=tags,
        pages=pages,
        sections={section.section_id: section for section in sections},
        own_chunks=None if chunks is None else tuple(own_chunks),
    )
    content = (
        title,
        tags,
        pages,
        [astuple(section) for section in sections],
        None if chunks is None else [(it.chunk_id, it.page, it.text) for it in own_chunks],
    )
    assert version_of(document) == hashlib.sha256(to_json(content)).hexdigest()


def test_versions_do_not_change_between_releases() -> None:
    document = make_document(title="Тест", tags=("a",), pages=('one "x"', "два"))
    assert version_of(document).startswith("5903d89745f67c608b952fa4370118bff38e4594b367c2d8")


def test_ocr_data_changes_the_version() -> None:
    read, other, own = (make_document(ocr=ocr) for ocr in ((93,), (92,), ()))
    assert len({version_of(it) for it in (read, other, own)}) == 3
