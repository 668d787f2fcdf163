import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.document_file import (
    BrokenFile,
    DocumentDump,
    DocumentExists,
    InvalidDocument,
    document_path,
    dump_document,
    read_document,
    write_document,
)
from mcp_tools_proxy.documents.folder.file_scan import page_spans
from mcp_tools_proxy.domain.document import Chunk, Document, Readers, Section
from tests.support.tables import each_row

PAGES = ["one page of text", "another page"]


def section(**changes: object) -> dict[str, object]:
    return {"section_id": "s", "title": "S", "page_start": 1, "page_end": 2} | changes


def content(**changes: object) -> dict[str, object]:
    return {"doc_id": "d", "tenant_id": "t", "title": "T", "pages": PAGES} | changes


Write = Callable[[object], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_json(value: object) -> Path:
        path = tmp_path / "file.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    return write_json


def test_a_minimal_file_is_a_document(write: Write) -> None:
    document = read_document(write(content()))
    assert (document.tenant_id, document.doc_id, document.title) == ("t", "d", "T")
    assert document.pages == tuple(PAGES)
    assert document.own_chunks is None


def test_unknown_keys_are_ignored(write: Write) -> None:
    assert read_document(write(content(colour="red"))).doc_id == "d"


def test_sections_keep_their_order_and_positions(write: Write) -> None:
    sections = [section(section_id="z", start_char=4), section(section_id="a", end_char=3)]
    read = read_document(write(content(sections=sections))).sections
    assert list(read) == ["z", "a"]
    assert (read["z"].start_char, read["a"].end_char) == (4, 3)


def test_given_chunks_are_numbered_in_file_order(write: Write) -> None:
    chunks = [{"chunk_id": c, "page": 1, "text": c * 2} for c in "xy"]
    read = read_document(write(content(chunks=chunks))).own_chunks
    assert read is not None
    assert [(c.chunk_id, c.chunk_index, c.text) for c in read] == [("x", 0, "xx"), ("y", 1, "yy")]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("", id="empty file"),
        pytest.param("{", id="cut JSON"),
        pytest.param("[]", id="no object"),
        pytest.param('{"a": NaN}', id="NaN"),
        pytest.param('{"doc_id": "\\ud800"}', id="lone surrogate"),
        pytest.param(content(doc_id=""), id="empty doc_id"),
        pytest.param(content(doc_id="x" * 257), id="long doc_id"),
        pytest.param(content(tenant_id="a\nb"), id="control character"),
        pytest.param(content(doc_id=7), id="number as doc_id"),
        pytest.param(content(pages=[]), id="no pages"),
        pytest.param(content(pages=["a", 1]), id="page of another type"),
        pytest.param(content(sections=[section(page_start=0)]), id="page 0"),
        pytest.param(content(sections=[section(page_end=3)]), id="page past the end"),
        pytest.param(content(sections=[section(page_start=2, page_end=1)]), id="pages reversed"),
        pytest.param(content(sections=[section(page_start=True)]), id="boolean page"),
        pytest.param(content(sections=[section(start_char=-1)]), id="negative start_char"),
        pytest.param(content(sections=[section(start_char=99)]), id="start_char past the page"),
        pytest.param(content(sections=[section(end_char=99)]), id="end_char past the page"),
        pytest.param(
            content(sections=[section(page_end=1, start_char=5, end_char=4)]), id="chars reversed"
        ),
        pytest.param(content(sections=[section(), section()]), id="section_id twice"),
        pytest.param(
            content(chunks=[{"chunk_id": "c", "page": 3, "text": ""}]), id="chunk past the end"
        ),
        pytest.param(
            content(chunks=[{"chunk_id": "c", "page": 1, "text": ""}] * 2), id="chunk_id twice"
        ),
    ],
)
def test_a_file_in_an_invalid_format_is_refused(write: Write, broken: object) -> None:
    with pytest.raises(BrokenFile):
        read_document(write(broken))


def test_a_duplicate_key_is_reported_with_its_position(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    twice = json.dumps(content(sections=[section()])).replace('"title"', '"title": "x", "title"')
    path.write_text(twice)
    with pytest.raises(BrokenFile) as refused:
        read_document(path)
    assert refused.value.reason == "title: is named twice in its object; keep one"


def test_a_missing_file_is_refused_as_broken(tmp_path: Path) -> None:
    with pytest.raises(BrokenFile):
        read_document(tmp_path / "none.json")


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.json"
    path.write_bytes(json.dumps(content(title="caf\u00e9"), ensure_ascii=False).encode("latin-1"))
    with pytest.raises(BrokenFile):
        read_document(path)


def test_the_error_is_one_line_with_the_position_but_without_content(write: Write) -> None:
    with pytest.raises(BrokenFile) as refused:
        read_document(write(content(title={"secret": "hunter2"}, pages=["a", "b"])))
    assert refused.value.reason.startswith("title: ")
    assert "hunter2" not in refused.value.reason
    assert "\n" not in refused.value.reason


def sample(**changes: object) -> Document:
    fields: dict[str, object] = {
        "tenant_id": "t",
        "doc_id": "d",
        "title": "Тест",
        "pages": tuple(PAGES),
        "sections": {
            "s": Section(section_id="s", title="S", page_start=1, page_end=1, start_char=4)
        },
        "tags": ("a", "b"),
        "own_chunks": (
            Chunk(chunk_id="c", page=2, chunk_index=0, source=PAGES[1], start=0, end=7),
        ),
    }
    return Document(**(fields | changes))  # type: ignore[arg-type] # fields are named as strings


def test_a_written_document_round_trips(tmp_path: Path) -> None:
    document = sample()
    read = read_document(write_document(tmp_path, document, replace=False).path)
    assert dump_document(read) == dump_document(document)
    assert (read.title, read.pages, read.tags) == (document.title, document.pages, document.tags)
    assert read.sections == document.sections
    assert read.own_chunks is not None
    assert read.own_chunks[0].text == "another"


@given(
    pages=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4),
    title=st.sampled_from(['"pages": ["x"]', "ж", "\\"]),
)
def test_page_spans_match_the_written_pages(pages: list[str], title: str) -> None:
    dump = DocumentDump(sample(title=title, pages=tuple(pages), sections={}, own_chunks=None))
    assert dump.spans == page_spans(b"".join(dump))


def test_each_page_section_and_chunk_is_written_on_one_line() -> None:
    lines = dump_document(sample(readers=Readers(roles=frozenset({"it"})))).decode().splitlines()
    assert lines == [
        "{",
        ' "doc_id": "d",',
        ' "tenant_id": "t",',
        ' "title": "Тест",',
        ' "tags": ["a","b"],',
        ' "pages": [',
        *(f"  {json.dumps(text)}," for text in PAGES[:-1]),
        f"  {json.dumps(PAGES[-1])}],",
        ' "sections": [',
        '  {"section_id":"s","title":"S","page_start":1,"page_end":1,"start_char":4}],',
        ' "readers": {"users":[],"roles":["it"]},',
        ' "chunks": [',
        '  {"chunk_id":"c","page":2,"text":"another"}]',
        "}",
    ]


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = write_document(tmp_path, sample(), replace=False).path
    with pytest.raises(DocumentExists):
        write_document(tmp_path, sample(title="new"), replace=False)
    assert read_document(path).title == "Тест"


def test_replace_overwrites_an_existing_file(tmp_path: Path) -> None:
    path = write_document(tmp_path, sample(), replace=False).path
    assert write_document(tmp_path, sample(title="new"), replace=True).path == path
    assert read_document(path).title == "new"


@pytest.mark.parametrize("replace", [False, True])
def test_writing_does_not_leave_temporary_files(tmp_path: Path, replace: bool) -> None:
    path = write_document(tmp_path, sample(), replace=replace).path
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"doc_id": "a\x00"}, id="control character"),
        pytest.param({"pages": ()}, id="no pages"),
        pytest.param({"pages": ("\ud800",)}, id="lone surrogate"),
        pytest.param({"doc_id": "\u0436" * 200}, id="name too long"),
    ],
)
def test_a_document_that_could_not_be_read_back_is_not_written(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    with pytest.raises(InvalidDocument):
        write_document(tmp_path, sample(**changes), replace=False)
    assert not list(tmp_path.rglob("*.*"))


IDENTIFIERS = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=27)


@given(tenant_id=IDENTIFIERS, doc_id=IDENTIFIERS)
def test_ids_can_be_decoded_from_a_path(tenant_id: str, doc_id: str) -> None:
    path = document_path(Path("/root"), tenant_id, doc_id)
    assert unquote(path.parent.name) == tenant_id
    assert unquote(path.name.removesuffix(".json")) == doc_id


@given(tenant_id=IDENTIFIERS, doc_id=IDENTIFIERS)
def test_ids_cannot_escape_the_folder_or_hide_the_file(tenant_id: str, doc_id: str) -> None:
    path = document_path(Path("/root"), tenant_id, doc_id)
    assert path.parent.parent == Path("/root")
    assert not any(part.startswith(".") for part in path.parts)


@each_row("hostile", ["..", ".", "../../etc/passwd", "a/b", "%2e%2e", "a\\b"])
def test_a_hostile_id_becomes_one_plain_file_name(hostile: str) -> None:
    path = document_path(Path("/root"), hostile, hostile)
    assert len(path.parts) == 4
    assert not {"/", "\\"} & set(path.name)


def test_names_are_percent_encoded() -> None:
    path = document_path(Path("/r"), "a/b", "отчёт 1")
    assert path == Path("/r/a%2Fb/%D0%BE%D1%82%D1%87%D1%91%D1%82%201.json")


def test_letters_are_not_encoded_if_the_encoded_name_would_be_too_long() -> None:
    name = "Руководство по эксплуатации насосной станции, том второй"
    path = document_path(Path("/r"), "t", name)
    assert path.name == name.replace(" ", "%20").replace(",", "%2C") + ".json"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"users": ["ann"], "roles": ["it", "audit"]}, Readers(
            users=frozenset({"ann"}), roles=frozenset({"it", "audit"}))),
        ({"roles": []}, Readers()),
        ({}, Readers()),
    ],
)  # fmt: skip
def test_readers_consist_of_users_and_roles(write: Write, written: object, read: Readers) -> None:
    document = read_document(write(content(readers=written)))
    assert document.readers == read
    assert read_document(write(dump_document(document).decode())).readers == read


def test_without_readers_every_caller_of_the_tenant_can_read(write: Write) -> None:
    document = read_document(write(content()))
    assert document.readers is None
    assert b"readers" not in dump_document(document)


@pytest.mark.parametrize(
    "changes",
    [
        {"reader": {"users": ["ann"]}},
        {"Readers": {}},
        {"redaers": {}},
        {" readers": {}},
        {"readers": None},
        {"readers": ["ann"]},
        {"readers": {"user": ["ann"]}},
        {"readers": {"users": "ann"}},
        {"readers": {"users": [""]}},
        {"readers": {"users": None}},
    ],
    ids=str,
)
def test_invalid_readers_make_the_file_invalid(write: Write, changes: dict[str, object]) -> None:
    """If they were ignored, the whole tenant could read the document."""
    with pytest.raises(BrokenFile, match="readers"):
        read_document(write(content(**changes)))


@pytest.mark.parametrize("key", ["headers", "leaders", "rating", "roles", "users"])
def test_similar_words_are_ordinary_unknown_keys(write: Write, key: str) -> None:
    assert read_document(write(content(**{key: 1}))).readers is None
