"""A server of ``mcp`` 1 as a program, over stdio or (``http PORT``) streamable HTTP."""

import sys

from mcp.server.fastmcp import Context, FastMCP

server = FastMCP("python-1", port=int(sys.argv[2]) if len(sys.argv) > 2 else 0)


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


server.run("streamable-http" if len(sys.argv) > 1 else "stdio")
