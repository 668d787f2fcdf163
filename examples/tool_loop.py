"""A whole tool loop: list the tools for a model, run what it calls, give it the results.

.venv/bin/python examples/tool_loop.py    needs no network: the model's replies are recorded.
"""

import json
import sys
import time

from fastapi.testclient import TestClient

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.telemetry.logging import configure_logging

CALLER = {"user": {"user_id": "u1", "tenant_id": "acme"}, "agent": "helpdesk"}
LIST = {"agent": CALLER["agent"], "format": "openai"}
CALL = {"name": "notes__search_notes", "arguments": '{"query": "VPN port"}'}
REPLIES = [
    {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": CALL}]},
    {"role": "assistant", "content": "Switch the VPN client to TCP port 443."},
]


def model(messages, tools):
    """Stands for client.chat.completions.create(messages=messages, tools=tools, …)."""
    return REPLIES[sum(message["role"] == "assistant" for message in messages)]


def list_tools(gateway):
    return gateway.get("/internal/mcp/tools", params=LIST).raise_for_status().json()


configure_logging("error", sys.stderr)
app = create_app(Settings(config_dir="examples/agents"))
with TestClient(app, "http://localhost") as gateway:  # or httpx.Client
    while CALL["name"] not in str(tools := list_tools(gateway)):
        time.sleep(0.1)  # the notes server is starting
    messages = [{"role": "user", "content": "UDP port 500 is blocked. What now?"}]
    while calls := (reply := model(messages, tools["tools"])).get("tool_calls"):
        messages.append(reply)
        for call in calls:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            body = {"tool_name": name, "arguments": arguments, **CALLER}
            answer = gateway.post("/internal/mcp/execute", json=body).json()
            content = json.dumps(answer["result"] if answer["status"] == "ok" else answer["error"])
            print(f"{name} {arguments} -> {content}")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    print(reply["content"])
