"""A token with ``execute: false`` makes no call at any entry."""

import json
from typing import Any

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.http_api import ALPHA
from tests.support.mcp_endpoint import Served, in_front_of_two
from tests.support.service import BATCH, EXECUTE, PROMPTS, RESOURCES
from tests.support.tables import named_row
from tests.support.tokens import bearer, file_token, token_settings

USER = {"user_id": "u", "tenant_id": "tenant_1"}
CALL = {"tool_name": ALPHA["execute"], "arguments": {}}
API: dict[str, tuple[str, dict[str, Any]]] = {
    "a tool": (EXECUTE, CALL),
    "our own tool": (EXECUTE, {"tool_name": "list_available_tools", "arguments": {}}),
    "a batch": (BATCH, {"calls": [CALL]}),
    "a prompt": (f"{PROMPTS}/get", {"name": ALPHA["prompt"], "arguments": {}}),
    "a resource": (f"{RESOURCES}/read", {"uri": ALPHA["resource"]}),
    "the try page": (
        "/internal/mcp/try",
        {**CALL, "user": {"user_id": "u", "tenant_id": "tenant_1"}},
    ),
}
MCP: dict[str, tuple[str, dict[str, Any]]] = {
    "a tool": ("tools/call", {"name": ALPHA["execute"], "arguments": {}}),
    "our own tool": ("tools/call", {"name": "list_available_tools", "arguments": {}}),
    "a prompt": ("prompts/get", {"name": ALPHA["prompt"]}),
    "a resource": ("resources/read", {"uri": ALPHA["resource"]}),
    "a completion": (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": ALPHA["prompt"]},
            "argument": {"name": "name", "value": "a"},
        },
    ),
}


async def answers(served: Served, token: str) -> dict[str, str]:
    """Return the answers of all call routes as text."""
    headers, found = bearer(token), {}
    for title, (path, body) in API.items():
        response = await served.service.http.post(path, json=body, headers=headers)
        found[f"API: {title}"] = response.text
    for title, (method, params) in MCP.items():
        response = await served.request(method, params, headers=headers)
        found[f"MCP: {title}"] = response.text
    async with served.client(mode="legacy", headers=headers) as client:
        try:
            answer = await client.call_tool(ALPHA["execute"], {})
            found["MCP: a tool in a session"] = answer.model_dump_json()
        except Exception as error:  # noqa: BLE001 - shown
            found["MCP: a tool in a session"] = str(error)
    return found


async def test_a_token_that_makes_no_calls_is_refused_on_every_call_route() -> None:
    async with in_front_of_two(**token_settings()) as served:
        holder: dict[str, Any] = {"user": "u", "may": [OperatorRight.RUN, OperatorRight.DOCUMENTS]}
        refused, usual = file_token(**holder, executes=False), file_token(**holder)
        assert served.service.gateway.tokens is not None
        await served.service.gateway.tokens.load()
        passed = await answers(served, usual)
        for title, text in (await answers(served, refused)).items():
            with named_row(title, json.dumps(text)[:500]):
                assert "execute is false" in text
                assert "execute is false" not in passed[title]
