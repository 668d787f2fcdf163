from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from mcp_tools_proxy.downstream.components.normalize import (
    ToolAnswer,
    failure_of,
    normalise_prompt_result,
    normalise_resource_result,
    normalise_tool_result,
)
from mcp_tools_proxy.downstream.components.remote_call import input_required
from mcp_tools_proxy.wire.content_blocks import CUT
from mcp_tools_proxy.wire.text import utf8_len
from tests.support.tables import each_row

F_17 = pytest.mark.requirement("F-17")
F_18 = pytest.mark.requirement("F-18")
F_19 = pytest.mark.requirement("F-19")

MAX = 1000
TEXT = {"type": "text", "text": "hello world"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
EMBEDDED = {"type": "resource", "resource": {"uri": "test://a", "text": "hello world"}}


def normalised(raw: object, max_text_bytes: int = MAX) -> ToolAnswer:
    return normalise_tool_result(raw, max_text_bytes=max_text_bytes)


@F_17
@each_row(
    "block",
    [
        TEXT,
        {**TEXT, "annotations": {"audience": ["user"], "vendor": False}, "_meta": {}, "new": 1},
        IMAGE,
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        EMBEDDED,
        {"type": "resource", "resource": {"uri": "test://a", "blob": "aGk="}},
        {"type": "resource_link", "uri": "test://a", "name": "a"},
        {"type": "of-tomorrow", "anything": [1]},
    ],
)
def test_a_valid_block_is_passed_on_unchanged(block: dict[str, Any]) -> None:
    answer = normalised({"content": [block]})
    assert (answer.value["content"], answer.decode_failed) == ([block], False)


@F_17
def test_structured_content_and_meta_are_passed_on() -> None:
    raw = {"content": [], "structuredContent": {"a": [1]}, "_meta": {"k": "v"}, "isError": False}
    value = normalised(raw).value
    assert (value["structured_content"], value["meta"]) == ({"a": [1]}, {"k": "v"})


@F_17
def test_absent_fields_stay_absent() -> None:
    assert normalised({"content": [TEXT]}).value == {
        "content": [TEXT],
        "tokens": 2,
        "truncated": False,
    }


@F_18
@each_row(
    ("block", "kind"),
    [
        ({"text": "hello world"}, "text"),
        ({"data": "aGk=", "mimeType": "image/png"}, "image"),
        ({"data": "aGk=", "mimeType": "audio/wav"}, "audio"),
        ({"resource": {"uri": "test://a", "text": "x"}}, "resource"),
    ],
)
def test_a_missing_type_is_inferred(block: dict[str, Any], kind: str) -> None:
    answer = normalised({"content": [block]})
    assert (answer.value["content"], answer.decode_failed) == ([{**block, "type": kind}], False)


@F_19
@each_row("raw", [{"answer": 42}, {"content": "text"}, {"content": None}])
def test_an_object_that_is_not_a_result_becomes_text_and_structured_content(
    raw: dict[str, Any],
) -> None:
    answer = normalised(raw)
    text = to_json(raw).decode()
    assert (answer.value["content"], answer.value["structured_content"], answer.decode_failed) == (
        [{"type": "text", "text": text}],
        raw,
        True,
    )


@F_19
@each_row("raw", [[1, 2], None, "text", 7])
def test_a_value_that_is_not_an_object_is_wrapped(raw: object) -> None:
    answer = normalised(raw)
    assert (answer.value["structured_content"], answer.decode_failed) == ({"raw": raw}, True)


@F_19
@each_row(
    ("item", "text"),
    [
        ("plain", "plain"),
        (42, "42"),
        ({"type": "text", "text": {"a": 1}}, '{"a":1}'),
        ({"type": "image"}, '{"type":"image"}'),
        ({"unknown": 1}, '{"unknown":1}'),
    ],
)
def test_an_invalid_block_becomes_text(item: object, text: str) -> None:
    assert normalised({"content": [item]}).value["content"] == [{"type": "text", "text": text}]


@F_19
def test_valid_blocks_next_to_an_invalid_one_are_kept() -> None:
    assert normalised({"content": [IMAGE, "odd"]}).value["content"][0] == IMAGE


@F_19
def test_a_broken_result_keeps_its_own_structure_and_error_flag() -> None:
    answer = normalised({"structuredContent": {"a": 1}, "isError": True, "meta": {"k": 1}})
    assert (answer.value["structured_content"], answer.value["meta"], answer.is_error) == (
        {"a": 1},
        {"k": 1},
        True,
    )


def test_is_error_in_snake_case_is_recognized() -> None:
    assert normalised({"content": [TEXT], "is_error": True}).is_error


def test_the_limit_applies_to_all_texts_together() -> None:
    answer = normalised({"content": [TEXT, IMAGE, EMBEDDED]}, max_text_bytes=16)
    assert (answer.value["content"], answer.value["truncated"]) == (
        [TEXT, IMAGE, {**EMBEDDED, "resource": {"uri": "test://a", "text": "hello"}}],
        True,
    )


def test_a_text_block_cut_to_nothing_is_omitted() -> None:
    answer = normalised({"content": [TEXT, TEXT, IMAGE]}, max_text_bytes=11)
    assert (answer.value["content"], answer.value["truncated"]) == ([TEXT, IMAGE], True)


@given(texts=st.lists(st.text()), max_bytes=st.integers(4, 60))
def test_all_text_together_is_within_the_limit(texts: list[str], max_bytes: int) -> None:
    raw = {"content": [{"type": "text", "text": text} for text in texts]}
    value = normalised(raw, max_bytes).value
    shown = "".join(block["text"] for block in value["content"])
    whole = "".join(texts)
    fits = utf8_len(whole) <= max_bytes
    assert (utf8_len(shown) <= max_bytes, whole.startswith(shown), value["truncated"]) == (
        True,
        True,
        not fits,
    )


def test_the_token_count_is_a_quarter_of_the_characters() -> None:
    assert normalised({"content": [{"type": "text", "text": "я" * 40}, EMBEDDED]}).tokens == 12


def test_without_text_the_token_count_is_a_quarter_of_the_json_bytes() -> None:
    value = {"content": [IMAGE]}
    assert normalised(value).tokens == len(to_json(value)) // 4


@each_row(
    "raw",
    [
        {"content": [{"type": "text", "text": "half \ud83d"}]},
        {"content": [], "structuredContent": {"\ud83d": ["\udc00"]}},
        {"odd": "\ud83d"},
    ],
)
def test_lone_surrogates_are_handled(raw: dict[str, Any]) -> None:
    assert "�".encode() in to_json(normalised(raw).value)


def test_a_result_nested_too_deeply_is_handled() -> None:
    deep: Any = "bottom"
    for _ in range(500):
        deep = [deep]
    answer = normalised({"content": [], "structuredContent": deep})
    assert b"nested too deeply" in to_json(answer.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
ODD = st.dictionaries(
    st.sampled_from(["content", "structuredContent", "_meta", "isError", "text"]), JSON
)


@given(raw=JSON | ODD)
def test_any_result_can_be_serialized(raw: object) -> None:
    shown = normalised(raw).value
    assert from_json(to_json(shown)) == shown


@given(
    raw=JSON | st.fixed_dictionaries({"messages": JSON}) | st.fixed_dictionaries({"contents": JSON})
)
def test_malformed_prompts_and_resources_are_handled(raw: object) -> None:
    results = normalise_prompt_result(raw, max_text_bytes=MAX), normalise_resource_result(raw)
    for result in results:
        assert result is None or from_json(to_json(result.value)) == result.value


@pytest.mark.requirement("F-21")
def test_a_failure_has_the_first_text_as_message_and_keeps_the_content() -> None:
    raw = {"content": [IMAGE, TEXT], "structuredContent": {"a": 1}, "isError": True}
    error = failure_of(normalised(raw), "notes:add")
    assert (error.message, error.details) == (
        'notes:add failed: "hello world"',
        {"content": [IMAGE, TEXT], "structured_content": {"a": 1}},
    )


def test_the_message_of_a_long_failure_is_truncated() -> None:
    raw = {"content": [{"type": "text", "text": "x" * 900}], "isError": True}
    assert len(failure_of(normalised(raw), "n").message) < 520


def test_a_request_for_input_is_distinguished_from_a_result() -> None:
    assert (input_required({"resultType": "input_required"}), input_required({"content": []})) == (
        True,
        False,
    )


@F_18
@each_row("content", [{"text": "hi"}, [{"text": "hi"}]])
def test_types_in_prompt_messages_are_inferred(content: Any) -> None:
    result = normalise_prompt_result(
        {"messages": [{"role": "user", "content": content}]}, max_text_bytes=MAX
    )
    assert result is not None
    assert b'"type":"text"' in to_json(result.value["messages"])


@each_row(
    "raw",
    [
        {},
        {"messages": {}},
        {"messages": [1]},
        {"messages": [{"role": "user", "content": "text"}]},
        {"messages": [{"role": "robot", "content": TEXT}]},
    ],
)
def test_an_undecodable_prompt_is_returned_as_none(raw: dict[str, Any]) -> None:
    assert normalise_prompt_result(raw, max_text_bytes=MAX) is None


def test_a_prompt_keeps_description_and_meta() -> None:
    raw = {"messages": [], "description": "d", "_meta": {"k": 1}, "resultType": "complete"}
    result = normalise_prompt_result(raw, max_text_bytes=MAX)
    assert result is not None
    assert [*result.value] == ["messages", "description", "meta", "tokens", "truncated"]


def test_a_missing_media_type_of_a_resource_is_not_invented() -> None:
    contents = [{"uri": "test://a", "text": "x" * 8}]
    result = normalise_resource_result({"contents": contents})
    assert result is not None
    assert result.value == {"contents": contents, "tokens": 2, "truncated": False}


def test_a_resource_s_text_is_not_cut() -> None:
    contents = [{"uri": "test://a", "text": "x" * 100_000}]
    result = normalise_resource_result({"contents": contents})
    assert result is not None
    assert (result.value["contents"], result.value["truncated"]) == (contents, False)


@each_row(
    "whole",
    ['{"a": "%s"}' % ("x" * 200), "\n[%s1]\n" % ("1," * 200), '[{"a":[]},%s{}]' % ("{}," * 99)],
)
def test_truncated_json_is_marked_within_the_limit(whole: str) -> None:
    block = {"type": "text", "text": whole}
    found = normalised({"content": [block]}, max_text_bytes=100).value["content"][0]["text"]
    assert (len(found), found.endswith("\n\n" + CUT), whole.startswith(found[:60])) == (
        100,
        True,
        True,
    )


def test_null_fields_are_treated_as_absent() -> None:
    block = {**TEXT, "annotations": None, "_meta": None}
    answer = normalised({"content": [block], "isError": None, "_meta": None})
    assert (answer.value["content"], answer.is_error, answer.decode_failed) == (
        [TEXT],
        False,
        False,
    )
    embedded = {
        "type": "resource",
        "resource": {"uri": "test://a", "text": "hello world", "mimeType": None},
    }
    assert normalised({"content": [embedded]}).value["content"] == [EMBEDDED]
    found = normalise_resource_result(
        {"contents": [{"uri": "test://a", "text": "a", "_meta": None}]}
    )
    assert found is not None
    assert found.value["contents"] == [{"uri": "test://a", "text": "a"}]


def test_json_that_would_be_cut_too_short_is_omitted() -> None:
    blocks = [
        {"type": "text", "text": "x" * 90},
        {"type": "text", "text": '{"a":"%s"}' % ("x" * 99)},
    ]
    value = normalised({"content": blocks}, max_text_bytes=100).value
    assert (value["content"], value["truncated"]) == (blocks[:1], True)


WRONG = {"audience": "user", "priority": "9", "lastModified": "today", "vendor": 1}
LINK = {"type": "resource_link", "uri": "test://a", "name": "a"}


@each_row(
    ("block", "kept"),
    [
        ({**TEXT, "annotations": WRONG, "_meta": [1]}, {**TEXT, "annotations": {"vendor": 1}}),
        ({**TEXT, "annotations": "none", "title": 5}, {**TEXT, "title": 5}),
        ({"text": "x", "_meta": 1}, {"type": "text", "text": "x"}),
        ({**IMAGE, "annotations": []}, IMAGE),
        ({**LINK, "size": "1 kB", "icons": [{}], "mimeType": 1}, {**LINK, "icons": []}),
        (
            {"type": "resource", "resource": {"uri": "a", "text": "b", "mimeType": 5, "_meta": ""}},
            {"type": "resource", "resource": {"uri": "a", "text": "b"}},
        ),
    ],
)
def test_an_optional_field_of_the_wrong_type_is_dropped(
    block: dict[str, Any], kept: dict[str, Any]
) -> None:
    answer = normalised({"content": [TEXT, block]})
    prompt = normalise_prompt_result(
        {"messages": [{"role": "user", "content": block}]}, max_text_bytes=MAX
    )
    assert (answer.value["content"], answer.decode_failed) == ([TEXT, kept], False)
    assert prompt is not None
    assert prompt.value["messages"] == [{"role": "user", "content": kept}]


def test_an_optional_field_of_the_wrong_type_in_a_resource_is_dropped() -> None:
    result = normalise_resource_result({"contents": [{"uri": "a", "text": "b", "mimeType": 5}]})
    assert result is not None
    assert result.value["contents"] == [{"uri": "a", "text": "b"}]
