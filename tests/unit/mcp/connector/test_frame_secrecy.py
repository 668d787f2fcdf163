"""The log line of a message never contains values, line breaks or unlimited text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.mcp.connector.frames import summarize
from tests.support.tables import each_row
from tests.unit.mcp.connector.messages import Json, failure, reply, request

LONG = "x" * 10_000
HIDDEN = "hidden value"

FIELDS = (
    "id", "method", "params", "result", "error", "message", "name", "uri", "arguments", "ref",
    "meta", "_meta", "tools", "prompts", "resources", "resourceTemplates", "uriTemplate",
    "content", "contents", "messages", "type", "text", "data", "mimeType", "resource",
    "inputSchema", "input_schema", "output_schema", "properties",
    "structuredContent", "structured_content", "isError", "is_error",
)  # fmt: skip
TEXTS = st.text(st.characters())  # includes lone surrogates, which JSON can encode
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS) | TEXTS, inner),
)
VALUES = st.recursive(
    st.just(HIDDEN),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*FIELDS, "x"]), inner),
)


def messages_with(value: object) -> list[Json]:
    """Messages with ``value`` at every possible position."""
    return [
        request(name="t", arguments=value),
        request(name="t", arguments={"a": value}, _meta={"b": value}),
        request(name="t", meta={"progressToken": value}),
        request("completion/complete", argument={"name": "a", "value": value}),
        request("logging/setLevel", level=value),
        request("initialize", clientInfo=value, capabilities=value),
        reply(structuredContent=value, _meta={"a": value}, isError=value),
        reply(structured_content={"a": value}, meta=value, is_error=value),
        reply(content=value),
        reply(content=[{"type": "text", "text": value}, {"data": value}]),
        reply(content=[{"data": value, "mimeType": value}, {"resource": value}]),
        reply(content=[{"type": value}]),
        reply(messages=[{"role": value, "content": value}]),
        reply(contents=[{"uri": "docs/7", "text": value, "blob": value}]),
        reply(tools=[{"name": "t", "description": value, "annotations": value}]),
        reply(tools=[{"inputSchema": {"properties": {"a": {"default": value}}}}]),
        reply(completion={"values": [value]}),
        failure("No.", data=value),
        {"id": {"a": value}, "method": [value], "params": [value], "result": [value]},
    ]


@pytest.mark.requirement("W-18")
@given(value=VALUES)
def test_values_are_not_shown(value: object) -> None:
    lines = [summarize(message) for message in messages_with(value)]
    assert [line for line in lines if HIDDEN in line] == []


@pytest.mark.requirement("W-18")
@each_row(
    ("message", "shown"),
    [
        ('No "hidden" in "here"', 'No "…" in "…"'),
        ("No 'hidden' in `here`", 'No "…" in "…"'),
        ("It isn't the tool's 'hid'den' value", "It isn't the tool's \"…\" value"),
        ("input_value=b'hidden', input_type=bytes", 'input_value=b"…", input_type=bytes'),
        ("Нет «скрытого» в “этом” „тексте“ ‘тут’", 'Нет "…" в "…" "…" "…"'),
        ('Path "C:\\hidden" is not there', 'Path "…" is not there'),
        (r'Text "a \"hidden\" b" is bad', 'Text "…"'),
        (f'Text "hidden{LONG}" is bad', 'Text "…"'),
        ("Text 'hidden", 'Text "…"'),
        ('"it\'s hidden" here', '"…" here'),
        ("a\nb\tc\x1b[0m\u2028d\ud800", "a b c [0m d "),
        (LONG, f"{LONG[:119]}…"),
    ],
)
def test_an_error_is_shown_without_quoted_values(message: str, shown: str) -> None:
    assert summarize(failure(message)) == f"type=error id=7 error={shown}"


@pytest.mark.requirement("W-18")
@given(message=JSON)
def test_any_message_is_one_printable_line(message: object) -> None:
    assert summarize(message).isprintable()


@each_row("text", [LONG, "\n" * 10_000])
def test_a_large_message_has_a_short_line(text: str) -> None:
    keys = {f"{number}{text}": text for number in range(1000)}
    items = [
        {"name": key, "type": f"t{key}"} | {"inputSchema": {"properties": keys}} for key in keys
    ]
    lists = ("tools", "prompts", "resources", "resourceTemplates", "resource_templates")
    message = {
        "id": text,
        "method": text,
        "params": {**keys, "name": text, "arguments": keys, "_meta": keys},
        "result": {
            **dict.fromkeys((*lists, "messages", "contents", "content"), items),
            "structuredContent": keys,
            "_meta": keys,
        },
        "error": {"message": text},
    }
    assert len(summarize(message)) <= 8000
