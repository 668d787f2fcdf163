"""Unknown fields of results are kept (W-14)."""

import pytest

from mcp_tools_proxy.downstream.components.normalize import (
    normalise_prompt_result,
    normalise_resource_result,
    normalise_tool_result,
)

MAX = 1000
TEXT = {"type": "text", "text": "hello world"}


@pytest.mark.requirement("W-14")
def test_unknown_fields_of_a_prompt_and_of_its_messages_are_kept() -> None:
    message = {"role": "user", "content": {**TEXT, "new": [1]}, "new": {"a": None}}
    raw = {"messages": [message], "new": 0, "resultType": "complete"}
    result = normalise_prompt_result(raw, max_text_bytes=MAX)
    assert result is not None
    assert (result.value["messages"], result.value["new"]) == ([message], 0)
    assert "resultType" not in result.value


@pytest.mark.requirement("W-14")
def test_unknown_fields_of_a_resource_and_of_its_contents_are_kept() -> None:
    contents = [{"uri": "test://a", "text": "x", "new": [1]}]
    raw = {"contents": contents, "new": None, "ttlMs": 5, "cacheScope": "public"}
    result = normalise_resource_result(raw)
    assert result is not None
    assert result.value == {"contents": contents, "new": None, "tokens": 0, "truncated": False}


def test_an_unknown_field_cannot_replace_a_field_of_the_gateway() -> None:
    raw = {"messages": [], "tokens": 10**9, "truncated": True, "meta": "x"}
    result = normalise_prompt_result(raw, max_text_bytes=MAX)
    assert result is not None
    assert result.value == {"messages": [], "tokens": 3, "truncated": False}


def test_unknown_fields_of_a_tools_result_are_kept() -> None:
    assert normalise_tool_result({"content": [TEXT], "new": {"a": 1}}, max_text_bytes=MAX).value[
        "new"
    ] == {"a": 1}
