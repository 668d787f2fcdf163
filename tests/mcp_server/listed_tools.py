"""Tools of two servers under their names in MCP lists, and calls of them."""

import httpx
from mcp import Client

from tests.support.local_tools import LOCAL_TOOLS
from tests.support.mcp_endpoint import BOTH, TENANT, Served, answer, names

LISTED = {
    "server": ["a:whoami", "a:alpha", "a-b:whoami", "a-b:beta"],
    "alias": ["a__whoami", "a__alpha", "a-b__whoami", "a-b__beta"],
    "bare": ["a:whoami", "alpha", "a-b:whoami", "beta"],
}
"""EVERYTHING in each style: both servers have a ``whoami``."""

CALLED = ["whoami of a", "alpha of a", "whoami of a-b", "beta of a-b"]


def of_servers(listed: list[str]) -> list[str]:
    return [name for name in listed if name not in LOCAL_TOOLS]


async def listed_by(client: Client) -> list[str]:
    return of_servers(names(await client.list_tools()))


async def called_by(client: Client, listed: list[str]) -> list[str]:
    """Call tools; return the tool and server that each call reached."""
    found = [(await client.call_tool(name, {})).structured_content for name in listed]
    return [f"{it['tool']} of {it['server']}" for it in found if it is not None]


async def in_session(
    served: Served, session_id: str, path: str, method: str = "tools/list"
) -> httpx.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method}
    headers = {**BOTH, **TENANT, "Mcp-Session-Id": session_id}
    return await served.http.post(path, json=body, headers=headers)


def listed_in(response: httpx.Response) -> list[str]:
    return of_servers([tool["name"] for tool in answer(response)["result"]["tools"]])
