"""The fixture as a program: ``python -m tests.support.mcp_servers.conformance --mode stdio``."""

import argparse
import asyncio
import socket
from collections.abc import Sequence

from tests.support.mcp_servers.conformance.server import build_server
from tests.support.mcp_servers.single_era import serve_streams

GRACE_S = 2
RETRY_MS = 100


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="conformance", allow_abbrev=False)
    parser.add_argument("--mode", choices=["stdio", "http"], default="stdio")
    parser.add_argument("--era", choices=["both", "legacy", "modern"], default="both")
    parser.add_argument("--port", type=int, default=0)
    chosen = parser.parse_args(words)
    if chosen.mode == "stdio":
        asyncio.run(serve_stdio(chosen.era))
    else:
        serve_http(chosen.port)


async def serve_stdio(era: str) -> None:
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - the web starts without

    async with stdio_server() as (reads, writes):
        await serve_streams(build_server(), reads, writes, era)


def serve_http(port: int) -> None:
    """Print the URL, and serve; h11 strips blanks at the ends of headers."""
    import uvicorn  # noqa: PLC0415 - stdio starts without the web

    from tests.support.mcp_servers.conformance.event_store import KeptEvents  # noqa: PLC0415 - the same

    app = build_server().streamable_http_app(event_store=KeptEvents(), retry_interval=RETRY_MS)
    with socket.create_server(("127.0.0.1", port)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)  # noqa: T201 - for readers
        config = uvicorn.Config(
            app, http="h11", log_config=None, access_log=False, timeout_graceful_shutdown=GRACE_S
        )
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
