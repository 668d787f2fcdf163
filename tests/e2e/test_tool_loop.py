"""The tool loops of the tutorial and the how-to work as printed."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.e2e.recorded_model import RecordedModel, recorded_model
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.model_apis import Json, listed
from tests.support.pages import blocks_of
from tests.support.program import Program, started

ROOT = Path(__file__).parents[2]
LOOP = ROOT / "examples/tool_loop.py"
TUTORIAL = ROOT / "docs/tutorials/agent-tool-loop.md"
HOW_TO = ROOT / "docs/how-to/tool-loop.md"
GATEWAY = "http://127.0.0.1:8082"
LINES = 22

CALL = {"doc_id": "doc_1", "section_id": "sec_intro"}
WRONG = {"doc_id": "doc_9", "section_id": "sec_intro"}
ANSWER = "Ask for the CA certificate first."


@dataclass(frozen=True, kw_only=True)
class Api:
    """An API of the how-to: its types, its recorded replies, and the path of its conversation."""

    url: str
    module: str
    types: tuple[str, str]
    """Types of a message in the conversation and of a tool."""
    conversation: str
    replies: list[Json]


def chat(message: Json) -> Json:
    choice = {"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": message}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage}


def chat_call(call_id: str, arguments: Json) -> Json:
    function = {"name": "read_doc_section", "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def responses_call(call_id: str, arguments: Json) -> Json:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": "read_doc_section",
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


def claude(stop_reason: str, *content: Json) -> Json:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": list(content)}
    return message | {"stop_reason": stop_reason, "stop_sequence": None, "usage": usage}


def claude_call(call_id: str, arguments: Json) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "read_doc_section", "input": arguments}


def gemini(*parts: Json) -> Json:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": "STOP"}]}


def gemini_call(call_id: str, arguments: Json) -> Json:
    return {"functionCall": {"id": call_id, "name": "read_doc_section", "args": arguments}}


REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
OUTPUT_TEXT = {"type": "output_text", "text": ANSWER, "annotations": []}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [OUTPUT_TEXT],
}
ASSISTANT: Json = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
CALLS = {"call_1": CALL, "call_2": WRONG}

APIS = {
    "OpenAI, Chat Completions": Api(
        url="https://api.openai.com",
        module="openai.types.chat",
        types=("ChatCompletionMessageParam", "ChatCompletionFunctionToolParam"),
        conversation="messages",
        replies=[
            chat(ASSISTANT | {"tool_calls": [chat_call(*it) for it in CALLS.items()]}),
            chat(ASSISTANT | {"tool_calls": [chat_call("call_3", CALL)]}),
            chat(ASSISTANT | {"content": ANSWER}),
        ],
    ),
    "OpenAI, Responses": Api(
        url="https://api.openai.com",
        module="openai.types.responses",
        types=("ResponseInputItemParam", "FunctionToolParam"),
        conversation="input",
        replies=[
            {"output": [REASONING, *(responses_call(*it) for it in CALLS.items())]},
            {"output": [responses_call("call_3", CALL)]},
            {"output": [REASONING, MESSAGE]},
        ],
    ),
    "Anthropic, Messages": Api(
        url="https://api.anthropic.com",
        module="anthropic.types",
        types=("MessageParam", "ToolParam"),
        conversation="messages",
        replies=[
            claude("tool_use", *(claude_call(*it) for it in CALLS.items())),
            claude("tool_use", {"type": "text", "text": "Again."}, claude_call("call_3", CALL)),
            claude("end_turn", {"type": "text", "text": ANSWER}),
        ],
    ),
}

APIS["Gemini"] = Api(
    url="https://generativelanguage.googleapis.com",
    module="tests.support.gemini_types",
    types=("Content", "Tool"),
    conversation="contents",
    replies=[
        gemini(*(gemini_call(*it) for it in CALLS.items())),
        gemini({"text": "Again.", "thoughtSignature": "x"}, gemini_call("call_3", CALL)),
        gemini({"text": ANSWER}),
    ],
)

CUT_OFF = {"type": "tool_use", "id": "call_1", "name": "read_doc_section", "input": {}}
TEXT = {"type": "text", "text": ANSWER}
REFUSAL = {"type": "refusal", "refusal": "I will not."}
ENDS = [
    ("OpenAI, Chat Completions", chat(ASSISTANT | {"content": ANSWER, "tool_calls": []}), ANSWER),
    ("OpenAI, Responses", {"output": []}, ""),
    ("OpenAI, Responses", {"output": [MESSAGE | {"content": [REFUSAL]}]}, ""),
    ("OpenAI, Responses", {"output": [MESSAGE, REASONING]}, ANSWER),
    ("OpenAI, Responses", {"output": [MESSAGE, REASONING, MESSAGE]}, ANSWER * 2),
    ("Gemini", gemini({"text": ANSWER}, {"text": ANSWER}), ANSWER * 2),
    ("Anthropic, Messages", claude("end_turn"), ""),
    ("Anthropic, Messages", claude("end_turn", TEXT, TEXT), ANSWER * 2),
    ("Anthropic, Messages", claude("max_tokens", TEXT, CUT_OFF), ANSWER),
    ("Anthropic, Messages", claude("pause_turn", TEXT, {"type": "server_tool_use"}), ANSWER),
]
"""Replies that end a loop, and the returned text."""


def test_the_loop_runs_without_a_network_and_prints_the_documented_output() -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, LOOP],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )
    assert f"```\n{done.stdout}```\n" in TUTORIAL.read_text(encoding="utf-8")


def test_the_tutorial_shows_excerpts_of_the_loop() -> None:
    code = LOOP.read_text(encoding="utf-8")
    excerpts = [text for kind, text in blocks_of(TUTORIAL) if kind == "python"]
    assert [it for it in excerpts if it not in code] == []
    assert len(excerpts) == 2


def loops() -> dict[str, str]:
    """Return the code of each API by the heading above it."""
    parts = HOW_TO.read_text(encoding="utf-8").split("\n## ")[1:]
    codes = [text for kind, text in blocks_of(HOW_TO) if kind == "python"]
    return dict(zip((part.partition("\n")[0] for part in parts), codes, strict=False))


def test_each_loop_is_as_short_as_its_title_says() -> None:
    codes = loops()
    assert list(codes) == list(APIS)
    assert [name for name, code in codes.items() if len(code.splitlines()) > LINES] == []


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with started(tmp_path_factory.mktemp("gateway")) as running:
        yield running


def validate(module: str, type_name: str, values: list[Json]) -> None:
    """Validate values against the vendor's types. Raises ValidationError."""
    vendor = getattr(importlib.import_module(module), type_name)
    adapter = TypeAdapter(vendor)
    for value in values:
        listed(adapter.validate_python(value))


@contextmanager
def loop(
    name: str, program: Program, replies: list[Json], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Callable[[str], str], RecordedModel]]:
    code = loops()[name].replace('"tenant_id": "acme"', '"tenant_id": "tenant_1"')
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "secret")
    with recorded_model(replies) as model:
        code = code.replace(GATEWAY, f"http://127.0.0.1:{program.port}")
        scope: dict[str, Any] = {}
        exec(code.replace(APIS[name].url, model.url), scope)  # noqa: S102 - our own page
        yield scope["answer"], model
        scope["answer"].__defaults__[0].close()


@pytest.mark.e2e
@pytest.mark.parametrize("name", APIS)
def test_a_loop_of_the_how_to_works(
    name: str, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = APIS[name]
    with loop(name, program, api.replies, monkeypatch) as (answer, model):
        assert answer("What do I do first?") == ANSWER
    assert len(model.requests) == len(api.replies)
    for request in model.requests:
        validate(api.module, api.types[0], request[api.conversation])
        validate(api.module, api.types[1], request["tools"])
    sent = json.dumps(model.requests[-1][api.conversation])
    assert [sent.count(f'"{call_id}"') for call_id in ("call_1", "call_2", "call_3")] == [2] * 3
    assert (sent.count("DOCUMENT_NOT_FOUND: "), sent.count("tokens")) == (1, 2)


@pytest.mark.e2e
@pytest.mark.parametrize(("name", "reply", "text"), ENDS)
def test_a_loop_returns_the_text_of_its_final_reply(
    name: str, reply: Json, text: str, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loop(name, program, [reply], monkeypatch) as (answer, _):
        assert answer("What do I do first?") == text


@pytest.mark.e2e
def test_a_loop_without_an_agent_stops_and_shows_that_one_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(tmp_path, {"MCP_PROXY_CONFIG_DIR": str(ROOT / "examples/agents")}) as program:
        for name in APIS:
            with (
                loop(name, program, [], monkeypatch) as (answer, _),
                pytest.raises(AssertionError, match="AGENT_REQUIRED"),
            ):
                answer("What do I do first?")


@pytest.mark.e2e
@pytest.mark.parametrize("name", APIS)
def test_a_loop_lists_tools_again_while_servers_are_pending(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = raw_entry(delay_s=2, only=["echo"])
    Config(servers={"s1": entry}, presets=[make_preset(tools=[("s1", "echo")])]).write(
        tmp_path / "config"
    )
    settings = {"MCP_PROXY_STARTUP_WAIT_S": "0", "MCP_PROXY_DEFAULT_TENANT_ID": "tenant_1"}
    with (
        started(tmp_path, settings) as program,
        loop(name, program, [APIS[name].replies[-1]], monkeypatch) as (answer, model),
    ):
        answer("What do I do first?")
    assert "s1__echo" in json.dumps(model.requests[0]["tools"])
