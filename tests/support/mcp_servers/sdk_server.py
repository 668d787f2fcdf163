"""A correct MCP server on the SDK: one tool, two prompts and two resources for each transport.

It offers exactly the items of broxy's test server (seed behaviours A.9).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    mode: str
    label: str
    tool: str
    operation: str
    compute: Callable[[float, float], float]


FLAVOURS = {
    flavour.mode: flavour
    for flavour in (
        Flavour(
            mode="stdio",
            label="STDIO",
            tool="add_stdio",
            operation="addition",
            compute=lambda a, b: a + b,
        ),
        Flavour(
            mode="http",
            label="HTTP",
            tool="subtract_http",
            operation="subtraction",
            compute=lambda a, b: a - b,
        ),
        Flavour(
            mode="sse",
            label="SSE",
            tool="multiply_sse",
            operation="multiplication",
            compute=lambda a, b: a * b,
        ),
        Flavour(
            mode="ws",
            label="WebSocket",
            tool="divide_ws",
            operation="division",
            compute=lambda a, b: a / b,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """Additions for tests: numbered tools, pages of ``page_size``, slow lists."""

    tools: int = 0
    page_size: int = 0
    delay_s: float = 0.0


class Handlers:
    def __init__(self, flavour: Flavour, extras: Extras) -> None:
        self._flavour = flavour
        self._extras = extras
        names = [flavour.tool, *(f"extra_{number:03}" for number in range(1, extras.tools + 1))]
        self._tools = [
            t.Tool(name=name, description=f"Does {name}.", input_schema={"type": "object"})
            for name in names
        ]
        uri = f"test://resource/{flavour.mode}"
        self._texts = {
            uri: f"{flavour.label} resource content",
            f"{uri}/{{id}}": f"{flavour.label} template resource content",
        }
        self._prompts = [
            t.Prompt(
                name=f"hello_{flavour.mode}",
                description="Says hello to someone.",
                arguments=[t.PromptArgument(name="name", required=True)],
            ),
            t.Prompt(name=f"hello_{flavour.mode}_plain", description="Says hello."),
        ]

    async def list_tools(
        self, _: Context, params: t.PaginatedRequestParams | None
    ) -> t.ListToolsResult:
        tools, cursor = await self._page(self._tools, params)
        return t.ListToolsResult(tools=tools, next_cursor=cursor)

    async def list_prompts(
        self, _: Context, params: t.PaginatedRequestParams | None
    ) -> t.ListPromptsResult:
        prompts, cursor = await self._page(self._prompts, params)
        return t.ListPromptsResult(prompts=prompts, next_cursor=cursor)

    async def list_resources(
        self, _: Context, params: t.PaginatedRequestParams | None
    ) -> t.ListResourcesResult:
        resources = [t.Resource(name=u, uri=u, mime_type="text/plain") for u in self._texts]
        page, cursor = await self._page(resources, params)
        return t.ListResourcesResult(resources=page, next_cursor=cursor)

    async def call_tool(self, _: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        if params.name not in {tool.name for tool in self._tools}:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")
        if params.name != self._flavour.tool:
            return t.CallToolResult(content=[t.TextContent(text=params.name)])
        arguments = params.arguments or {}
        a, b = number(arguments.get("a")), number(arguments.get("b"))
        operation = self._flavour.operation
        try:
            result = self._flavour.compute(a, b)
        except ZeroDivisionError as error:
            return t.CallToolResult(content=[t.TextContent(text=str(error))], is_error=True)
        return t.CallToolResult(
            content=[t.TextContent(text=f"{operation} result: {result}")],
            structured_content={
                "operation": operation,
                "result": result,
                "mode": self._flavour.mode,
            },
        )

    async def get_prompt(self, _: Context, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        someone = (params.arguments or {}).get("name", "friend")
        greetings = {
            f"hello_{self._flavour.mode}": f"Hello {self._flavour.mode} {someone}!",
            f"hello_{self._flavour.mode}_plain": f"Hello {self._flavour.mode}!",
        }
        if params.name not in greetings:
            raise MCPError(t.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        message = t.PromptMessage(
            role="assistant", content=t.TextContent(text=greetings[params.name])
        )
        return t.GetPromptResult(messages=[message])

    async def read_resource(
        self, _: Context, params: t.ReadResourceRequestParams
    ) -> t.ReadResourceResult:
        if params.uri not in self._texts:
            raise MCPError(t.INVALID_PARAMS, f"Resource not found: {params.uri}")
        text = self._texts[params.uri]
        contents = t.TextResourceContents(uri=params.uri, text=text, mime_type="text/plain")
        return t.ReadResourceResult(contents=[contents])

    async def _page(
        self, items: Sequence[T], params: t.PaginatedRequestParams | None
    ) -> tuple[list[T], str | None]:
        await asyncio.sleep(self._extras.delay_s)
        start = int((params and params.cursor) or 0)
        end = start + (self._extras.page_size or len(items))
        return list(items[start:end]), str(end) if end < len(items) else None


def number(value: object) -> float:
    """Read a number or a numeric string; other values are 0."""
    try:
        return float(value) if isinstance(value, int | float | str) else 0.0
    except ValueError:
        return 0.0


def build_server(mode: str, extras: Extras) -> Server[Any]:
    handlers = Handlers(FLAVOURS[mode], extras)
    return Server(
        f"broxy-test-mcp-{mode}",
        version="0.0.1",
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_list_resources=handlers.list_resources,
        on_read_resource=handlers.read_resource,
        get_tool_input_schema=lambda _: {"type": "object"},
    )
