"""The SDK's server as a program: ``python -m tests.support.mcp_servers --mode stdio``."""

import argparse
import asyncio
import socket
from collections.abc import Sequence

from tests.support.mcp_servers.sdk_server import Extras, build_server
from tests.support.mcp_servers.single_era import serve_streams

MODES = {
    "stdio": "stdio",
    "http": "http",
    "http-streamable": "http",
    "streamable-http": "http",
    "http-sse": "sse",
    "sse": "sse",
    "ws": "ws",
    "websocket": "ws",
    "web-socket": "ws",
}


def main(words: Sequence[str] | None = None) -> None:
    chosen = parser().parse_args(words)
    mode = MODES[chosen.mode]
    extras = Extras(tools=chosen.tools, page_size=chosen.page_size, delay_s=chosen.delay)
    server = build_server(mode, extras)
    if mode == "stdio":
        from mcp.server.stdio import stdio_server  # noqa: PLC0415 - the web starts without

        async def converse() -> None:
            async with stdio_server() as (reads, writes):
                await serve_streams(server, reads, writes, chosen.era)

        asyncio.run(converse())
        return
    from tests.support.mcp_servers.sdk_web import (  # noqa: PLC0415 - stdio starts without the web
        build_app,
        configured,
        url_of,
    )

    app = build_app(
        mode, server, path=chosen.path, era=chosen.era, json_response=chosen.json_response
    )
    with socket.create_server((chosen.host, chosen.port)) as listening:
        port = listening.getsockname()[1]
        print(url_of(mode, chosen.host, port, chosen.path), flush=True)  # noqa: T201 - for readers
        configured(app).run(sockets=[listening])


def parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(prog="mcp_servers", allow_abbrev=False)
    words.add_argument("--mode", choices=MODES, default="stdio")
    words.add_argument("--host", default="127.0.0.1")
    words.add_argument("--port", type=int, default=8080)
    words.add_argument("--path", default="/mcp")
    words.add_argument("--era", choices=["both", "legacy", "modern"], default="both")
    words.add_argument("--page-size", type=int, default=0, help="items in a page; 0 is all")
    words.add_argument("--tools", type=int, default=0, help="numbered tools beside its own")
    words.add_argument("--delay", type=float, default=0.0, help="seconds before it lists")
    words.add_argument("--json-response", action="store_true", help="http: no event streams")
    return words


if __name__ == "__main__":
    main()
