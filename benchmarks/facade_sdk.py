"""Reference for the MCP facade: the SDK's server with the same tools in process.

Its ``read_doc_section`` looks up a section and builds the result, without budgets, tenants and log.
It runs in the same uvicorn as the service (uvloop, httptools, no access log).
"""

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.routing import Route

from benchmarks.bare import serve
from benchmarks.facade_messages import JSON_PATH, STREAM_PATH

_Context = ServerRequestContext[Any, Any]


def sdk_server(tools: list[Any], sections: Mapping[str, Any]) -> Server[Any]:
    """Build a server that lists ``tools``; a call returns the section ``section_id``."""
    models = [Tool.model_validate(tool) for tool in tools]
    schemas = {tool.name: tool.input_schema for tool in models}

    async def list_tools(
        _context: _Context, _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=models)

    async def call_tool(_context: _Context, params: CallToolRequestParams) -> CallToolResult:
        result = sections[(params.arguments or {})["section_id"]]
        text = TextContent(text=to_json(result).decode())
        return CallToolResult(content=[text], structured_content=result)

    return Server(
        "sdk",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=schemas.get,
    )


def sdk_app(server: Server[Any]) -> Starlette:
    """Serve JSON responses at one path, and event streams at another."""
    bodies = StreamableHTTPSessionManager(server, json_response=True)
    streams = StreamableHTTPSessionManager(server, json_response=False)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with bodies.run(), streams.run():
            yield

    return Starlette(
        routes=[
            Route(JSON_PATH, StreamableHTTPASGIApp(bodies)),
            Route(STREAM_PATH, StreamableHTTPASGIApp(streams)),
        ],
        lifespan=lifespan,
    )


def main() -> None:
    """Serve the tools and sections of ``file`` on ``port``."""
    file, port = sys.argv[1:]
    served = json.loads(Path(file).read_text(encoding="utf-8"))
    serve(sdk_app(sdk_server(served["tools"], served["sections"])), int(port))


if __name__ == "__main__":
    main()
