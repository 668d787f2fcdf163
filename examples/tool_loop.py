"""A tool loop for four APIs: send the model's tool calls to the gateway, append the results.

.venv/bin/python examples/tool_loop.py    needs no network: the models' replies are recorded.
"""

import json
import sys

from fastapi.testclient import TestClient

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.telemetry.logging import configure_logging

CALLER = {"user": {"user_id": "u1", "tenant_id": "acme"}, "agent": "helpdesk"}
QUESTION = {"role": "user", "content": "UDP port 500 is blocked. What now?"}


def run(gateway, calls):
    """Run the model's tool calls; return the messages to append to the conversation."""
    if not calls:  # the reply is empty
        return []
    answer = gateway.post("/internal/mcp/execute/batch", json={"calls": calls, **CALLER})
    messages = answer.raise_for_status().json()["messages"]
    print(json.dumps(messages))
    return messages


def text_of(parts, kind):
    """Join the texts of the reply's parts of this type."""
    return "".join(part["text"] for part in parts if part["type"] == kind)


def recorded(replies):
    """Replay recorded replies instead of calling the model's API."""
    left = iter(replies)
    return lambda conversation: next(left)


def chat_completions(gateway, model):
    messages = [QUESTION]
    while calls := (reply := model(messages)).get("tool_calls"):
        messages += [reply, *run(gateway, calls)]
    return reply["content"]


def responses(gateway, model):
    items = [QUESTION]
    while results := run(gateway, output := model(items)):
        items += [*output, *results]
    parts = [part for item in output for part in item.get("content") or ()]
    return text_of(parts, "output_text")


def anthropic_messages(gateway, model):
    messages = [QUESTION]
    while results := run(gateway, content := model(messages)):
        messages += [{"role": "assistant", "content": content}, *results]
    return text_of(content, "text")


def gemini(gateway, model):
    contents = [{"role": "user", "parts": [{"text": QUESTION["content"]}]}]
    while results := run(gateway, (content := model(contents))["parts"]):
        contents += [content, *results]
    return "".join(part.get("text", "") for part in content["parts"])


NAME, TEXT = "notes__search_notes", '{"query": "VPN port"}'
FUNCTION = {"name": NAME, "arguments": TEXT}
SWITCH = "Switch the VPN client to TCP port 443."
RECORDED = {
    chat_completions: [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
        },
        {"role": "assistant", "content": SWITCH},
    ],
    responses: [
        [{"type": "function_call", "call_id": "c1", **FUNCTION}],
        [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": SWITCH}],
            }
        ],
    ],
    anthropic_messages: [
        [{"type": "tool_use", "id": "c1", "name": NAME, "input": {"query": "VPN port"}}],
        [{"type": "text", "text": SWITCH}],
    ],
    gemini: [
        {
            "role": "model",
            "parts": [{"functionCall": {"name": NAME, "args": {"query": "VPN port"}}}],
        },
        {"role": "model", "parts": [{"text": SWITCH}]},
    ],
}

configure_logging("error", sys.stderr)
app = create_app(Settings(config_dir="examples/agents"))
with TestClient(app, "http://localhost") as gateway:  # or httpx.Client
    for loop, replies in RECORDED.items():
        print(f"{loop.__name__}: {loop(gateway, recorded(replies))}")
