import pytest

from mcp_tools_proxy.mcp.connector.frames import summarize
from tests.support.seed_002 import CALL, CALL_REPLY, LIST_REPLY
from tests.support.tables import each_row
from tests.unit.mcp.connector.messages import Json, reply, request

LONG = "x" * 10_000
HIDDEN = "hidden value"


def shown_of(message: Json) -> str:
    """Return the part of the line in braces, after ``params`` or ``result``."""
    return summarize(message).partition("{")[2].rpartition("}")[0]


@pytest.mark.requirement("W-20", "W-16")
def test_the_sample_lists_are_summarized() -> None:
    assert summarize(LIST_REPLY) == (
        "type=response id=1 result{tools=1, tool_names=s1:search, input_schema_fields=query,top_k,"
        " output_schema_fields=results, prompts=1, prompt_names=hello, resources=1,"
        " resource_keys=docs/{id}} has_result=true"
    )


def test_an_immutable_list_is_summarized_like_a_list() -> None:
    assert shown_of(reply(tools=({"name": "a"},))) == "tools=1, tool_names=a"


@pytest.mark.requirement("W-20", "W-15", "W-17")
def test_the_sample_call_is_summarized() -> None:
    assert summarize(CALL) == (
        "type=request id=42 method=tools/call params=name,arguments,meta"
        " params{target=s1:search, args=query,top_k, meta=trace_id}"
    )


@pytest.mark.requirement("W-20", "W-17")
def test_the_sample_reply_is_summarized() -> None:
    assert summarize(CALL_REPLY) == (
        "type=response id=42 result{content=1, content_types=text, structured_keys=results,"
        " meta_keys=trace_id, is_error=false} has_result=true"
    )


@pytest.mark.requirement("W-20", "W-17")
def test_the_reply_of_a_6_is_summarized() -> None:
    result = {
        "content": [{"type": "text", "text": "ok"}],
        "structured_content": {"result": {"count": 1}},
        "meta": {"trace_id": "abc123", "duration_ms": 12},
        "is_error": False,
    }
    assert summarize({"jsonrpc": "2.0", "id": "42", "result": result}) == (
        "type=response id=42 result{content=1, content_types=text, structured_keys=result,"
        " meta_keys=trace_id,duration_ms, is_error=false} has_result=true"
    )


@pytest.mark.requirement("W-15")
@each_row(
    ("message", "line"),
    [
        ({"id": 1, "method": "ping"}, "type=request id=1 method=ping"),
        ({"id": 1.5, "method": "ping", "params": {}}, "type=request id=1.5 method=ping"),
        ({"id": "a", "method": "ping", "params": ["x"]}, "type=request id=a method=ping"),
        ({"method": "notifications/x"}, "type=notification method=notifications/x"),
        ({"id": 1, "result": {}}, "type=response id=1 has_result=true"),
        ({"id": 1, "result": None}, "type=response id=1 has_result=true"),
        ({"id": 1, "result": ["x"]}, "type=response id=1 has_result=true"),
        ({"id": 1, "error": {"message": "No."}}, "type=error id=1 error=No."),
        ({"id": 1, "error": {"message": 5}}, "type=message id=1"),
        ({"id": 1, "error": "No."}, "type=message id=1"),
        ({"id": True, "method": ["x"]}, "type=message"),
        ({"id": 10**5000}, "type=message"),
        ({}, "type=message"),
        ([{"id": 1, "method": "ping"}], "payload=non-object"),
        ("x", "payload=non-object"),
        (None, "payload=non-object"),
    ],
)
def test_a_message_is_described_by_its_type(message: object, line: str) -> None:
    assert summarize(message) == line


@pytest.mark.requirement("W-15")
@each_row(
    ("params", "target"),
    [
        ({"name": "s1:search"}, "s1:search"),
        ({"uri": "docs/7"}, "docs/7"),
        ({"ref": {"type": "ref/prompt", "name": "hello"}}, "hello"),
        ({"ref": {"type": "ref/resource", "uri": "docs/{id}"}}, "docs/{id}"),
        ({"uri": "https://user:password@host/a?key=x#y"}, "https://host/a"),
        ({"uri": f"https://user:{LONG}@host/a"}, "https://"),
        ({"uri": "file:///a@b"}, "file:///a@b"),
        ({"uri": "Data:text/plain,x"}, "Data:"),
        ({"uri": "search{?q,top}"}, "search"),
    ],
)
def test_the_target_is_a_name_without_values(params: Json, target: str) -> None:
    assert shown_of(request(**params)) == f"target={target}"


@pytest.mark.requirement("W-09")
def test_both_spellings_of_a_reply_give_the_same_summary() -> None:
    schema: Json = {"properties": {"a": {}}}
    snake = reply(
        tools=[{"name": "t", "input_schema": schema, "output_schema": schema}],
        resource_templates=[{"name": "r", "uri_template": "docs/{id}"}],
        structured_content={"b": 1},
        meta={"c": 1},
        is_error=True,
    )
    camel = reply(
        tools=[{"name": "t", "inputSchema": schema, "outputSchema": schema}],
        resourceTemplates=[{"name": "r", "uriTemplate": "docs/{id}"}],
        structuredContent={"b": 1},
        _meta={"c": 1},
        isError=True,
    )
    assert summarize(snake) == summarize(camel)


@pytest.mark.requirement("W-09", "W-17")
def test_the_keys_of_meta_in_both_spellings_are_shown_together() -> None:
    assert shown_of(request(_meta={"a": 1}, meta={"b": 1})) == "meta=b,a"


@pytest.mark.requirement("W-16")
def test_a_list_of_templates_shows_their_uris() -> None:
    templates = [{"name": "doc", "uriTemplate": "docs/{id}"}, {"name": "other"}]
    assert shown_of(reply(resourceTemplates=templates)) == (
        "resource_templates=2, resource_template_keys=docs/{id},other"
    )


@pytest.mark.requirement("W-16")
def test_an_empty_list_is_counted() -> None:
    assert shown_of(reply(tools=[], prompts=[])) == "tools=0, prompts=0"


@pytest.mark.requirement("W-16")
def test_the_first_five_names_of_a_list_are_shown() -> None:
    prompts = [{"name": f"p{number}"} for number in range(7)]
    assert shown_of(reply(prompts=prompts)) == "prompts=7, prompt_names=p0,p1,p2,p3,p4,..."


def test_a_long_name_is_cut() -> None:
    assert shown_of(request(arguments={LONG: 1, "a": 2})) == f"args={LONG[:79]}…,a"


@pytest.mark.requirement("W-16")
def test_schema_fields_come_from_the_first_tool_with_a_schema() -> None:
    bare = {"name": "a", "inputSchema": {"type": "object"}}
    full = {"name": "b", "inputSchema": {"properties": {"x": {}, "y": {}}}}
    assert shown_of(reply(tools=[bare, full])) == (
        "tools=2, tool_names=a,b, input_schema_fields=x,y"
    )


@pytest.mark.requirement("W-17")
def test_the_types_of_content_are_shown_once_each_and_inferred_when_absent() -> None:
    blocks: list[object] = [
        {"text": "a"},
        {"type": "text", "text": "b"},
        {"data": "c", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "docs/7"},
        {"type": f"{HIDDEN}!"},
        {"type": ["text"]},
        "d",
    ]
    assert shown_of(reply(content=blocks)) == "content=7, content_types=text,image,resource_link"


@pytest.mark.requirement("W-17")
@each_row("flag", ["true", 1, None, [True], {}])
def test_an_invalid_error_flag_is_not_shown(flag: object) -> None:
    assert shown_of(reply(content=[], isError=flag)) == "content=0"


def test_the_number_and_types_of_prompt_messages_are_shown() -> None:
    messages = [{"role": "user", "content": {"type": "text", "text": HIDDEN}}]
    assert shown_of(reply(messages=messages)) == "messages=1, content_types=text"


def test_the_uris_of_read_resources_are_shown() -> None:
    contents = [{"uri": "docs/7", "text": HIDDEN}]
    assert shown_of(reply(contents=contents)) == "contents=1, resource_keys=docs/7"
