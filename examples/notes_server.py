"""An MCP server to try the gateway with: notes in memory, gone when it stops.

python examples/notes_server.py            speaks MCP over stdin and stdout
python examples/notes_server.py --http     … over streamable HTTP on 127.0.0.1:8084/mcp
"""

import argparse
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse

READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
DESTRUCTIVE = ToolAnnotations(destructive_hint=True, open_world_hint=False)

Title = Annotated[str, Field(min_length=1, max_length=100, description="The note's title.")]

server = MCPServer("notes", version="1.0.0", instructions="A few notes. They are not kept.")
notes = {
    "vpn": "Switch the VPN client to TCP port 443 where the network blocks UDP port 500.",
    "standup": "Every day at 09:30, ten minutes, standing.",
}


@server.tool(annotations=READ_ONLY)
def search_notes(
    query: Annotated[str, Field(min_length=1, description="Words to look for.")],
) -> dict[str, str]:
    """Find the notes that hold every word of the query, whatever its case."""
    words = query.casefold().split()
    return {
        title: text
        for title, text in notes.items()
        if all(word in f"{title} {text}".casefold() for word in words)
    }


@server.tool()
def add_note(title: Title, text: Annotated[str, Field(max_length=10_000)]) -> str:
    """Write a note, or write it anew."""
    notes[title] = text
    return f"There are {len(notes)} notes now."


@server.tool(annotations=DESTRUCTIVE)
def delete_all_notes() -> str:
    """Throw every note away. (The example presets leave this one out.)"""
    notes.clear()
    return "No note is left."


@server.prompt()
def weekly_review(topic: str) -> str:
    """Ask for a review of what the notes say of a topic."""
    return f"Search the notes for {topic!r} and tell what is still open, in three sentences."


@server.resource("notes://all", mime_type="text/plain")
def all_notes() -> str:
    """Give every note."""
    return "\n\n".join(f"{title}\n{text}" for title, text in notes.items())


@server.resource("notes://note/{title}", mime_type="text/plain")
def one_note(title: str) -> str:
    """Give one note."""
    return notes.get(title, f"There is no note {title!r}.")


@server.custom_route("/health", methods=["GET"])
async def health(_request: Request) -> JSONResponse:
    """Say that the process serves."""
    return JSONResponse({"status": "ok"})


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description="An MCP server to try the gateway with.")
    parser.add_argument("--http", action="store_true", help="streamable HTTP instead of stdio")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8084)
    parser.add_argument("--allow-host", help="the Host header of clients elsewhere: name:port")
    options = parser.parse_args()
    if not options.http:
        server.run("stdio")
        return
    hosts = [f"{options.host}:{options.port}", f"localhost:{options.port}", options.allow_host]
    server.run(
        "streamable-http",
        host=options.host,
        port=options.port,
        json_response=True,
        transport_security=TransportSecuritySettings(allowed_hosts=[h for h in hosts if h]),
    )


if __name__ == "__main__":
    main()
