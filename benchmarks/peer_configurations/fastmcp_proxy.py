"""A FastMCP proxy that shares one session with the server among all callers."""

import asyncio
import sys

from fastmcp import Client
from fastmcp.server import create_proxy


async def serve(url: str, port: int) -> None:
    """Serve ``/mcp`` with JSON responses."""
    async with Client(url) as client:
        await create_proxy(client).run_http_async(
            host="127.0.0.1",
            port=port,
            path="/mcp",
            json_response=True,
            log_level="warning",
            show_banner=False,
        )


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
