"""A bare app that imports the libraries the service imports: how fast could a start be?"""

import sys
from pathlib import Path

import aiohttp
import httptools
import httpx
import jsonschema_rs
import limits.aio.storage
import limits.aio.strategies
import mcp
import prometheus_client
import pydantic_settings
import redis.asyncio
import structlog
import tantivy
import typer
import uvloop
import watchfiles

from benchmarks.bare import fastapi_app, serve

IMPORTED = (
    aiohttp,
    httptools,
    httpx,
    jsonschema_rs,
    limits.aio.storage,
    limits.aio.strategies,
    mcp,
    prometheus_client,
    pydantic_settings,
    redis.asyncio,
    structlog,
    tantivy,
    typer,
    uvloop,
    watchfiles,
)


def main() -> None:
    """Serve the answer of ``file`` on ``port``."""
    _, file, port = sys.argv[1:]
    serve(fastapi_app(Path(file).read_bytes()), int(port))


if __name__ == "__main__":
    main()
