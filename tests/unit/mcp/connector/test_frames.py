import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.mcp.connector.frames import BadFrame, Frame, read_frame, with_meta, write_frame
from tests.support.tables import each_row

MOST_CHARS = 256
numbers = st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
messages = st.dictionaries(texts, json_values, max_size=5)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=MOST_CHARS)
metas = st.dictionaries(texts, json_values, max_size=3)


def read(data: bytes | None) -> Frame:
    return read_frame(data, max_items=1000)


def enveloped(session_identifier: object, message: object) -> bytes:
    return json.dumps({"session_identifier": session_identifier, "message": message}).encode()


@given(names, json_values)
def test_an_envelope_round_trips(name: str, message: object) -> None:
    assert read(enveloped(name, message)) == Frame(name, message)


def name_in(data: bytes) -> str | None:
    """Parse a frame and return its session's name, or None if it is refused with our own error."""
    try:
        return read(data).session_identifier
    except BadFrame as bad:
        return None if str(bad) in REASONS else f"says {bad}"


REASONS = {
    "is not valid JSON",
    "is not an object with session_identifier and message",
    "has no session_identifier of 1-256 characters without control characters",
}


@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_an_invalid_envelope_is_refused_with_an_own_error(data: bytes) -> None:
    assert name_in(data) is None


@given(st.text(min_size=1, max_size=300))
def test_a_name_has_at_most_256_characters_without_control_characters(name: str) -> None:
    is_fine = len(name) <= MOST_CHARS and all(
        not (ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000)
        for char in name
    )
    assert name_in(enveloped(name, {})) == (name if is_fine else None)


@each_row(
    ("members", "answerable"),
    [
        ('"session_identifier": "s", "message": {"id": 1, "a": 1, "a": 2}', True),
        ('"session_identifier": "s", "message": {"id": 1, "id": 2}', False),
        ('"session_identifier": "s", "session_identifier": "t", "message": {"id": 1}', False),
        ('"session_identifier": "s", "message": {"id": 1}, "message": {"id": 2}', False),
    ],
)
def test_a_duplicate_key_is_answered_if_the_session_is_unambiguous(
    members: str, answerable: bool
) -> None:
    with pytest.raises(BadFrame, match="has a key twice") as caught:
        read(b"{%b}" % members.encode())
    assert (caught.value.frame is not None) is answerable


def test_a_frame_of_too_many_values_is_refused() -> None:
    with pytest.raises(BadFrame, match="more than 1000 JSON values"):
        read(enveloped("s", [0] * 1000))


def test_a_binary_frame_is_refused() -> None:
    with pytest.raises(BadFrame, match="is binary"):
        read(None)


@given(names, texts, messages)
def test_a_written_frame_contains_only_the_session_and_the_message(
    name: str, server: str, message: dict[str, object]
) -> None:
    assert json.loads(write_frame(name, server, message)) == {
        "session_identifier": name,
        "target_server_identifier": server,
        "message": message,
    }


@given(names, messages)
def test_a_written_frame_can_be_read(name: str, message: dict[str, object]) -> None:
    assert read(write_frame(name, "gw", message)) == Frame(name, message)


@given(metas, metas, messages)
def test_both_spellings_of_meta_become_that_of_mcp(
    theirs: dict[str, object], older: dict[str, object], others: dict[str, object]
) -> None:
    params = {**others, "meta": older, "_meta": theirs}
    spelt = with_meta({"method": "tools/call", "params": params})
    rest = {key: value for key, value in others.items() if key not in ("meta", "_meta")}
    assert spelt == {"method": "tools/call", "params": {**rest, "_meta": {**older, **theirs}}}


@given(json_values)
def test_a_message_without_the_older_meta_is_unchanged(message: object) -> None:
    wrapped = {"method": "tools/call", "params": message}
    if isinstance(message, dict):
        message.pop("meta", None)
    assert with_meta(wrapped) is wrapped
    assert with_meta(message) == message


@given(metas)
def test_the_original_message_is_not_modified(meta: dict[str, object]) -> None:
    message = {"method": "tools/call", "params": {"meta": meta, "name": "x"}}
    before = copy.deepcopy(message)
    with_meta(message)
    assert message == before


@each_row("meta", [None, 1, "x", [1], True])
def test_a_meta_that_is_not_an_object_is_ignored(meta: object) -> None:
    message = {"method": "tools/call", "params": {"meta": meta}}
    assert with_meta(message) is message


@each_row("theirs", [None, 1, "x", [1], True])
def test_the_older_meta_replaces_a_meta_that_is_not_an_object(theirs: object) -> None:
    message = {"method": "tools/call", "params": {"meta": {"a": 1}, "_meta": theirs}}
    assert with_meta(message) == {"method": "tools/call", "params": {"_meta": {"a": 1}}}


def test_params_of_an_answer_are_ignored() -> None:
    message = {"id": 1, "result": {}, "params": {"meta": {"a": 1}}}
    assert with_meta(message) is message
