"""Reference: FastAPI and aiohttp forward a call to an MCP server without logic."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from benchmarks.bare import serve
from benchmarks.messages import EXECUTE


def forwarder_app(url: str) -> FastAPI:
    """Post each call to ``url`` as a tools/call and return the JSON response."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with aiohttp.ClientSession() as session:
            app.state.session = session
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post(EXECUTE)
    async def execute(request: Request) -> JSONResponse:
        call = await request.json()
        session: aiohttp.ClientSession = app.state.session
        params = {"name": call["tool_name"], "arguments": call["arguments"]}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with session.post(url, json=message) as answer:
            return JSONResponse(await answer.json())

    return app


def main() -> None:
    """Forward to ``url`` from ``port``."""
    url, port = sys.argv[1:]
    serve(forwarder_app(url), int(port))


if __name__ == "__main__":
    main()
