import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from mcp_tools_proxy.documents.folder.file_scan import page_spans
from tests.support.tables import each_row

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ['"pages": ["x"]', "\\", '\\"', "]", "{", "a\u0000b", "\U0001f600"]
)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["pages", "text", "a"]) | TEXTS, inner, max_size=3)
    ),
    max_leaves=8,
)


def pages_by_spans(content: bytes) -> list[str]:
    spans = page_spans(content)
    pairs = zip(spans[::2], spans[1::2], strict=True)
    return [from_json(content[start:end]) for start, end in pairs]


@given(
    pages=st.lists(TEXTS, min_size=1, max_size=4),
    before=st.dictionaries(st.sampled_from(["title", "a", "Pages"]), VALUES, max_size=3),
    after=st.dictionaries(st.sampled_from(["sections", "chunks", "x"]), VALUES, max_size=3),
    style=st.sampled_from(
        [{}, {"indent": 2}, {"ensure_ascii": False}, {"separators": (" ,\n", "\t:\r\n")}]
    ),
)
def test_page_spans_are_found_in_any_formatting(
    pages: list[str], before: dict[str, Any], after: dict[str, Any], style: dict[str, Any]
) -> None:
    written = json.dumps({**before, "pages": pages, **after}, **style)
    assert pages_by_spans(written.encode()) == pages


@each_row(
    ("content", "pages"),
    [
        (b'{"\\u0070ages": ["a"]}', ["a"]),
        (b'{"title": "pages", "tags": ["pages", "b"], "pages": ["a"]}', ["a"]),
        (b'{"x": {"pages": ["no"]}, "pages" : [ "a" , "b" ] }', ["a", "b"]),
        (b'{"sections": [{"title": "]"}], "pages": ["\\"]"]}', ['"]']),
    ],
)
def test_nested_keys_named_pages_are_ignored(content: bytes, pages: list[str]) -> None:
    assert pages_by_spans(content) == pages
