"""JSON and JSON Lines as readable text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import PAGE_BYTES, ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.json_text import MAX_DEPTH, import_json, import_json_lines
from mcp_tools_proxy.domain.document import Document
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="data")
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


def imported(value: object) -> Document:
    return import_json(json.dumps(value).encode(), ORIGIN)


def test_an_array_of_flat_objects_is_a_table_with_the_columns_of_all() -> None:
    document = import_json(
        b'[{"code": "A|1", "price": 2.50}, {"code": "B", "stock": null}]', ORIGIN
    )
    assert document.pages == (
        "| code | price | stock |\n| --- | --- | --- |\n| A\\|1 | 2.50 |  |\n| B |  |  |\n\n",
    )


def test_an_object_is_lines_of_keys_and_values_and_its_parts_are_sections() -> None:
    document = imported(
        {
            "title": "Leave rules",
            "open": True,
            "tags": ["hr", "leave"],
            "contact": {"name": "Ann", "desk": {"floor": 3}},
            "rules": [{"id": 1, "applies": ["all"]}, {"id": 2, "days": [{"n": 5}]}],
        }
    )
    assert document.pages == (
        "title: Leave rules\nopen: true\ntags: hr, leave\n"
        "contact:\n  name: Ann\n  desk:\n    floor: 3\n\n"
        "rules:\n\nid: 1\napplies: all\n\nid: 2\ndays:\n  - n: 5\n\n",
    )
    assert document.title == "Leave rules"
    assert [section.title for section in document.sections.values()] == ["contact", "rules"]


def test_pages_end_between_records() -> None:
    records = [{"id": number, "text": {"en": "word " * 50}} for number in range(100)]
    pages = imported(records).pages
    assert len(pages) > 1
    assert all(page.startswith("id: ") and len(page) <= PAGE_BYTES for page in pages)


def test_each_page_of_a_table_has_the_column_names() -> None:
    pages = imported([{"id": number, "text": "word " * 50} for number in range(100)]).pages
    assert len(pages) > 1
    assert all(page.startswith("| id | text |\n") and len(page) <= PAGE_BYTES for page in pages)


def test_each_line_of_json_lines_is_a_record() -> None:
    document = import_json_lines(b'{"a": 1}\r\n\r\n{"a": 2}\n', ORIGIN)
    assert document.pages == ("| a |\n| --- |\n| 1 |\n| 2 |\n\n",)


def test_json_lines_in_a_file_named_json_are_records() -> None:
    lines = b'{"a": 1}\n{"a": 2}\n'
    assert import_json(lines, ORIGIN).pages == import_json_lines(lines, ORIGIN).pages


def test_numbers_stay_as_they_are_written() -> None:
    assert import_json(b'{"n": 1.50, "big": 12345678901234567890}', ORIGIN).pages == (
        "n: 1.50\nbig: 12345678901234567890\n",
    )


@each_row(
    ("data", "shown"),
    [
        (b'{"a": 1, "b": 2, "a": 3}', "a: 1\na: 3\nb: 2\n"),
        (b'{"a": {"b": [1], "c": 0, "b": {"x": 2}}}', "a:\n  b: 1\n  b:\n    x: 2\n  c: 0\n\n"),
        (b'[{"a": 1, "a": 1}, {"a": 2}]', "a: 1\na: 1\n\na: 2\n\n"),
        (b'{"l": [{"a": 1, "a": []}]}', "l:\n\na: 1\na: []\n\n"),
        (b'{"title": "A", "title": "B"}', "title: A\ntitle: B\n"),
    ],
)
def test_all_values_of_a_repeated_key_are_kept(data: bytes, shown: str) -> None:
    document = import_json(data, ORIGIN)
    assert document.pages == (shown,)
    assert document.title == "data"


@each_row(
    ("data", "reason"),
    [
        (b"[]", "is empty"),
        (b'{"a": 1,}', "line 1, column"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * (MAX_DEPTH + 2) + b"1" + b"}" * (MAX_DEPTH + 2), "nested too deeply"),
        (b'{"tenant_id":"t","doc_id":"d","title":"t","pages":["x"]}', "document file"),
    ],
)
def test_json_that_cannot_be_imported_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ImportFailed) as refused:
        import_json(data, ORIGIN)
    assert reason in refused.value.reason


def test_a_broken_line_is_named() -> None:
    with pytest.raises(ImportFailed) as refused:
        import_json_lines(b'{"a": 1}\n{"a": \n', ORIGIN)
    assert "line 2" in refused.value.reason


@given(st.recursive(SCALARS, lambda it: st.lists(it) | st.dictionaries(st.text(), it)))
def test_any_json_is_imported_or_empty(value: object) -> None:
    try:
        document = imported(value)
    except ImportFailed as error:
        assert error.reason.startswith("is empty: ")  # noqa: PT017
    else:
        assert all(
            section.page_start <= len(document.pages) for section in document.sections.values()
        )


def test_objects_in_a_list_of_different_values_are_items() -> None:
    data = b'{"list": [1, {"key": "value", "other": 2}, [3, 4]]}'
    assert import_json(data, ORIGIN).pages == ("list:\n\n- 1\n- key: value\n  other: 2\n-: 3, 4\n",)
