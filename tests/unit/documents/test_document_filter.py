"""Filters of documents from any JSON."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.document_filter import parse_filter
from mcp_tools_proxy.documents.document_store import folded_names
from mcp_tools_proxy.documents.versions import head_of
from tests.support.builders import make_document

KEYS = ["tags", "any", "all", "not", "language", "date", "from", "to", "metadata", "min", "max"]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["2027-01-31", "de"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_any_json_is_a_filter_or_refused(given_filter: Any) -> None:
    head = head_of(make_document(tags=("a",)))
    try:
        wanted = parse_filter(given_filter)
    except ValueError:
        return
    assert wanted.admits(head, folded_names(head)[2:]) in (True, False)


@pytest.mark.parametrize(
    "text", ["[" * 5_000, '{"metadata":{"a":{"min":1' + "0" * 400 + "}}}", '{"a":NaN}', "\ud800"]
)
def test_odd_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"metadata|should be|is not a key"):
        parse_filter(text)
