from typing import Any

import mcp_types as t
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError

from tests.support.mcp_servers.conformance import schemas
from tests.support.mcp_servers.conformance.input_tools import (
    CURRENT_CALLER,
    SCHEMAS,
    fill_in_prompt,
)
from tests.support.mcp_servers.conformance.notification_tools import NOTIFYING, Lists
from tests.support.mcp_servers.conformance.results import (
    BINARY,
    FIXED,
    PROMPTS,
    TEMPLATE,
    TEXTS,
    contents_of,
    messages_of,
    text_result,
)
from tests.support.mcp_servers.conformance.rounds import Context, Round, conduct

NAME = "conformance-fixture"
MIRRORING = "test_x_mcp_header"
DIALECT = "json_schema_2020_12_tool"
TOOL_TRIGGER = "test_trigger_tool_change"
PROMPT_TRIGGER = "test_trigger_prompt_change"
TOOLS = [
    *FIXED,
    *CURRENT_CALLER,
    *NOTIFYING,
    TOOL_TRIGGER,
    PROMPT_TRIGGER,
    MIRRORING,
    DIALECT,
    Lists.TOOL,
]
"""Names of all tools; the last one is added and removed."""

INPUT_PROMPT = "test_input_required_result_prompt"
SUGGESTIONS = ["test", "testing", "tested"]
RESOURCE_NOT_FOUND = -32002
"""The code of the legacy era; the modern one uses INVALID_PARAMS."""


class Fixture:
    def __init__(self, bus: InMemorySubscriptionBus) -> None:
        self._lists = Lists(bus)
        self._tools = {
            **CURRENT_CALLER,
            **NOTIFYING,
            TOOL_TRIGGER: self._lists.change_tools,
            PROMPT_TRIGGER: self._lists.change_prompts,
        }

    def schema_of(self, name: str) -> dict[str, Any]:
        if name == DIALECT:
            return schemas.DIALECT_2020_12
        return (
            schemas.MIRRORED if name == MIRRORING else schemas.of_properties(SCHEMAS.get(name, {}))
        )

    async def list_tools(
        self, _: Context, __: t.PaginatedRequestParams | None
    ) -> t.ListToolsResult:
        names = [name for name in TOOLS if name != Lists.TOOL or self._lists.has_tool]
        return t.ListToolsResult(
            tools=[
                t.Tool(name=name, description=f"Does {name}.", input_schema=self.schema_of(name))
                for name in names
            ]
        )

    async def call_tool(
        self, context: Context, params: t.CallToolRequestParams
    ) -> t.CallToolResult | t.InputRequiredResult:
        arguments = params.arguments or {}
        if params.name in self._tools:
            return await conduct(self._tools[params.name], first_of(context, params, arguments))
        if params.name in {MIRRORING, DIALECT} or self._is_dynamic_tool(params.name):
            return text_result(f"{params.name} got {sorted(arguments.items())}")
        if params.name not in FIXED:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return FIXED[params.name]

    def _is_dynamic_tool(self, name: str) -> bool:
        return name == Lists.TOOL and self._lists.has_tool

    async def list_prompts(
        self, _: Context, __: t.PaginatedRequestParams | None
    ) -> t.ListPromptsResult:
        prompts = {**PROMPTS, **({Lists.PROMPT: []} if self._lists.has_prompt else {})}
        return t.ListPromptsResult(
            prompts=[
                t.Prompt(
                    name=name,
                    description=f"Says {name}.",
                    arguments=[t.PromptArgument(name=each, required=True) for each in arguments],
                )
                for name, arguments in prompts.items()
            ]
        )

    async def get_prompt(
        self, context: Context, params: t.GetPromptRequestParams
    ) -> t.GetPromptResult | t.InputRequiredResult:
        if params.name == INPUT_PROMPT:
            return await conduct(fill_in_prompt, first_of(context, params, {}))
        messages = messages_of(params.name, params.arguments or {})
        if messages is None:
            raise MCPError(t.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        return t.GetPromptResult(messages=messages)


def first_of(
    context: Context,
    params: t.CallToolRequestParams | t.GetPromptRequestParams,
    arguments: dict[str, Any],
) -> Round:
    return Round(
        context=context,
        arguments=arguments,
        answers=params.input_responses or {},
        state=params.request_state,
    )


async def list_resources(_: Context, __: t.PaginatedRequestParams | None) -> t.ListResourcesResult:
    kinds = {**dict.fromkeys(TEXTS, "text/plain"), BINARY: "image/png"}
    return t.ListResourcesResult(
        resources=[
            t.Resource(name=uri.removeprefix("test://"), uri=uri, mime_type=kind)
            for uri, kind in kinds.items()
        ]
    )


async def list_templates(
    _: Context, __: t.PaginatedRequestParams | None
) -> t.ListResourceTemplatesResult:
    template = t.ResourceTemplate(
        name="template", uri_template=TEMPLATE, mime_type="application/json"
    )
    return t.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(
    context: Context, params: t.ReadResourceRequestParams
) -> t.ReadResourceResult:
    contents = contents_of(params.uri)
    if contents is None:
        code = t.INVALID_PARAMS if Round(context=context).is_modern else RESOURCE_NOT_FOUND
        raise MCPError(code, f"Resource not found: {params.uri}", {"uri": params.uri})
    return t.ReadResourceResult(contents=[contents])


async def accept(
    _: Context, __: t.SubscribeRequestParams | t.UnsubscribeRequestParams
) -> t.EmptyResult:
    return t.EmptyResult()


async def set_level(_: Context, __: t.SetLevelRequestParams) -> t.EmptyResult:
    return t.EmptyResult()


async def complete(_: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
    typed = params.argument.value
    values = [each for each in SUGGESTIONS if each.startswith(typed)]
    return t.CompleteResult(completion=t.Completion(values=values, total=len(values)))


def build_server() -> Server[Any]:
    """Build the server; it records which of its lists changed."""
    bus = InMemorySubscriptionBus()
    fixture = Fixture(bus)
    server: Server[Any] = Server(
        NAME,
        version="1.0.0",
        on_list_tools=fixture.list_tools,
        on_call_tool=fixture.call_tool,
        on_list_prompts=fixture.list_prompts,
        on_get_prompt=fixture.get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=accept,
        on_unsubscribe_resource=accept,
        on_subscriptions_listen=ListenHandler(bus),
        on_completion=complete,
        get_tool_input_schema=fixture.schema_of,
    )
    server.add_request_handler("logging/setLevel", t.SetLevelRequestParams, set_level)
    server.middleware.append(
        RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME)
    )
    return server
