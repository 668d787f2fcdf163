"""Measures the size that structured content adds to ``messages``: ``python -m tests.fleet.tokens``.

Every call of the fleet is made as a tool call of Chat Completions, with ``structuredInMessages`` on
and off. Tokens are estimated as in the gateway: a quarter of the characters.
"""

import asyncio
import json
from typing import Any

import httpx

from mcp_tools_proxy.wire.text import estimate_tokens
from tests.fleet.gateway import Fleet, running_fleet
from tests.fleet.servers import SERVERS, fill
from tests.support.service import BATCH

USER = {"user_id": "u", "tenant_id": "tenant_1"}


async def main() -> None:
    """Print the tokens of both, and the calls that differ."""
    counts: list[dict[str, int]] = []
    structured: dict[str, int] = {}
    for shown in (False, True):
        with running_fleet(structuredInMessages=shown) as fleet:
            tokens, structured = await tokens_of_calls(fleet)
            counts.append(tokens)
    without, with_structured = counts
    for name, before in without.items():
        if with_structured[name] != before:
            print(f"{name}: {before} -> {with_structured[name]}")
    off, on = (sum(it.values()) for it in counts)
    always = sum(structured.values())
    print(f"{len(without)} calls: {off} tokens off, {on} on, {100 * (on / off - 1):.1f} % more")
    print(
        f"{len(structured)} have structured content, of {always} tokens: {100 * always / off:.1f} %"
    )


async def tokens_of_calls(fleet: Fleet) -> tuple[dict[str, int], dict[str, int]]:
    """Return the tokens of each call's message, and those of its structured content."""
    shown, structured = {}, {}
    async with httpx.AsyncClient(base_url=fleet.values["url"], timeout=120) as http:
        for server_id, server in SERVERS.items():
            for number, (tool, arguments) in enumerate(server.calls):
                filled = fill(arguments, folder=fleet.folder_of(server_id), **fleet.values)
                function = {"name": f"{server_id}__{tool}", "arguments": json.dumps(filled)}
                call = {"id": "call_1", "type": "function", "function": function}
                answer = (await http.post(BATCH, json={"calls": [call], "user": USER})).json()
                name = f"{server_id}:{tool} ({number})"
                shown[name] = estimate_tokens(len(text_of(answer["messages"][0])))
                content = answer["results"][0].get("result", {}).get("structured_content")
                if content is not None:
                    structured[name] = estimate_tokens(len(json.dumps(content)))
    return shown, structured


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    parts = [{"text": content}] if isinstance(content, str) else content
    return "".join(part.get("text", "") for part in parts)


if __name__ == "__main__":
    asyncio.run(main())
