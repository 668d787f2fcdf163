"""The size of JSON structure is that of its compact form with empty texts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from mcp_tools_proxy.wire import strict_json
from mcp_tools_proxy.wire.strict_json import has_structure_over

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a",:{}[]\\ \n', max_size=20),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('k"\\:', max_size=5), inner),
)


def without_texts(value: Any) -> int:
    """Return the bytes of compact JSON with empty texts."""
    match value:
        case str():
            return 2
        case list():
            return 2 + max(0, len(value) - 1) + sum(map(without_texts, value))
        case dict():
            inner = sum(3 + without_texts(it) for it in value.values())
            return 2 + max(0, len(value) - 1) + inner
    return len(to_json(value))


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1_000])
@given(value=VALUES)
def test_the_limit_applies_to_the_bytes_outside_of_texts(chunk_bytes: int, value: Any) -> None:
    data, size = json.dumps(value).encode(), without_texts(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "_CHUNK_BYTES", chunk_bytes)
        assert not has_structure_over(data, size)
        assert has_structure_over(data, size - 1)


def test_a_long_text_does_not_count_as_structure() -> None:
    assert not has_structure_over(json.dumps({"text": '{"a": [1, 2]}, ' * 100_000}).encode(), 20)
