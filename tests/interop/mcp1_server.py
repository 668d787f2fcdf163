"""A server of ``mcp`` 1 as a program, over stdio or (with PORT and ANSWER) streamable HTTP.

ANSWER is the response to a request of an unknown session: ``sdk`` for the SDK's, otherwise a status
and, after a colon, the message of a JSON-RPC error without an id. Without arguments and outside
``__main__``, as for gunicorn, ``app`` is the server. Kept-alive connections are closed after 1 s.
"""

import json
import sys

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import ToolAnnotations

server = FastMCP("python-1")


@server.tool()
async def roots(ctx: Context):
    """Return the URIs of the client's roots."""
    listed = await ctx.session.list_roots()
    return " ".join(str(it.uri) for it in listed.roots)


@server.tool()
def declared(ctx: Context):
    """Return whether the client declares roots."""
    return ctx.session.client_params.capabilities.roots is not None


@server.tool()
def echo(text: str):
    """Return the text."""
    return text


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def read(text: str):
    """Return the text; it may be repeated."""
    return text


def answering(app, unknown):
    """Answer requests of sessions that ``app`` did not start."""
    status, _, message = unknown.partition(":")
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": message}}
    sessions = set()

    async def serve(scope, receive, send):
        async def note(event):
            given = dict(event.get("headers") or ()).get(b"mcp-session-id")
            sessions.update({given} - {None})
            await send(event)

        session = dict(scope.get("headers") or ()).get(b"mcp-session-id")
        if unknown == "sdk" or session in {None, *sessions}:
            await app(scope, receive, note)
            return
        body = json.dumps(error).encode() if message else b""
        kind = b"application/json" if message else b"text/plain"
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": int(status), "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return serve


if __name__ != "__main__":
    app = server.streamable_http_app()
elif len(sys.argv) == 1:
    server.run("stdio")
else:
    port, unknown = sys.argv[1:]
    app = answering(server.streamable_http_app(), unknown)
    bind = {"host": "127.0.0.1", "port": int(port), "log_level": "error"}
    uvicorn.run(app, **bind, timeout_keep_alive=1)
