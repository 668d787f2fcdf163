"""All routes of the HTTP API, in the order of the OpenAPI document (contract §1)."""

from collections.abc import Sequence

from mcp_tools_proxy.api.batch.batch_handlers import BatchHandlers
from mcp_tools_proxy.api.batch.batch_models import BatchBody
from mcp_tools_proxy.api.endpoint import BodyReader
from mcp_tools_proxy.api.execute_handlers import ExecuteHandlers
from mcp_tools_proxy.api.health_handlers import HealthHandlers
from mcp_tools_proxy.api.list_handlers import ListHandlers
from mcp_tools_proxy.api.models import (
    ActivePresetAnswer,
    CallerQuery,
    ExecuteRequest,
    HealthAnswer,
    PresetChoice,
    PresetsAnswer,
    PromptRequest,
    PromptsAnswer,
    ReadinessAnswer,
    RemoteAnswer,
    ResourceRequest,
    ResourcesAnswer,
    ServersAnswer,
    ToolsAnswer,
    ToolsQuery,
)
from mcp_tools_proxy.api.openapi import (
    BATCH_EXAMPLES,
    BATCH_RESPONSES,
    CALL_RESPONSES,
    CALLER_HEADERS,
    EXECUTE_EXAMPLES,
    PRESET_EXAMPLES,
    PROMPT_EXAMPLES,
    RESOURCE_EXAMPLES,
    SWITCH_RESPONSES,
    list_parameters,
    list_responses,
    show_responses,
)
from mcp_tools_proxy.api.preset_handlers import PresetHandlers
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.api.status_handlers import StatusHandlers
from mcp_tools_proxy.web.fast_routes import DirectRoute


def api_routes(
    build: RouteBuilder,
    *,
    execute: ExecuteHandlers,
    batch: BatchHandlers,
    lists: ListHandlers,
    presets: PresetHandlers,
    status: StatusHandlers,
    health: HealthHandlers,
) -> Sequence[DirectRoute]:
    """Build every route of the HTTP API: a new one is one more entry here."""
    return (
        build.with_body(
            "POST",
            "/internal/mcp/execute",
            execute.execute,
            ExecuteRequest,
            examples=EXECUTE_EXAMPLES,
            summary="Run one tool",
            description=(
                "What the model or its runtime can react to is 200 with status `error`; see "
                "the README for every code."
            ),
            responses=CALL_RESPONSES,
            parameters=CALLER_HEADERS,
            is_fast=True,
        ),
        build.with_body(
            "POST",
            "/internal/mcp/execute/batch",
            batch.execute_batch,
            BodyReader(described=BatchBody, read=batch.read_batch),
            examples=BATCH_EXAMPLES,
            summary="Run several tools in parallel",
            description=(
                "Each call is checked and charged on its own; answers are in request order. "
                "`calls` may also be what a model answered, unchanged: `tool_calls` of OpenAI's "
                "Chat Completions, `output` of its Responses, `content` of Anthropic's Messages. "
                "Then `messages` are what to append to the conversation."
            ),
            responses=BATCH_RESPONSES,
            parameters=CALLER_HEADERS,
            is_fast=True,
        ),
        build.with_body(
            "POST",
            "/internal/mcp/prompts/get",
            execute.get_prompt,
            PromptRequest,
            examples=PROMPT_EXAMPLES,
            summary="Get one prompt",
            description="The result has `messages`, as its server made them.",
            responses=CALL_RESPONSES,
            parameters=CALLER_HEADERS,
            is_fast=True,
        ),
        build.with_body(
            "POST",
            "/internal/mcp/resources/read",
            execute.read_resource,
            ResourceRequest,
            examples=RESOURCE_EXAMPLES,
            summary="Read one resource",
            description="The result has `contents`, as its server sent them.",
            responses=CALL_RESPONSES,
            parameters=CALLER_HEADERS,
            is_fast=True,
        ),
        build.get(
            "/internal/mcp/tools",
            lists.list_tools,
            summary="List the tools that this caller may run",
            description=(
                "As MCP lists them, or as a model API takes them; there each goes by its "
                "alias. The same tools give the same bytes."
            ),
            responses=list_responses(ToolsAnswer),
            parameters=list_parameters(ToolsQuery),
        ),
        build.get(
            "/internal/mcp/prompts",
            lists.list_prompts,
            summary="List the prompts that this caller may get",
            responses=list_responses(PromptsAnswer),
            parameters=list_parameters(CallerQuery),
        ),
        build.get(
            "/internal/mcp/resources",
            lists.list_resources,
            summary="List the resources that this caller may read",
            responses=list_responses(ResourcesAnswer),
            parameters=list_parameters(CallerQuery),
        ),
        build.get(
            "/internal/mcp/presets",
            presets.list_presets,
            summary="List the presets that can be chosen",
            responses=show_responses(PresetsAnswer),
        ),
        build.get(
            "/internal/mcp/presets/active",
            presets.show_active,
            summary="Tell which preset is in force, and what it names in vain",
            responses=show_responses(ActivePresetAnswer),
        ),
        build.with_body(
            "PUT",
            "/internal/mcp/presets/active",
            presets.switch_preset,
            PresetChoice,
            examples=PRESET_EXAMPLES,
            summary="Put another preset in force",
            description=(
                "Needs `Authorization: Bearer <token>` with the admin token, or, where callers "
                "need tokens, an operator's. A service where they do not, without an admin token, "
                "takes it only while it listens on a loopback address. Every later call sees the "
                "new preset."
            ),
            responses=SWITCH_RESPONSES,
            needs_token=presets.switch_needs_token,
        ),
        build.get(
            "/internal/mcp/servers",
            status.list_servers,
            summary="Tell how the downstream servers are",
            responses=show_responses(ServersAnswer),
        ),
        build.get(
            "/internal/mcp/remote",
            status.show_remote,
            summary="Tell how the connection to the remote backend is",
            responses=show_responses(RemoteAnswer),
        ),
        build.get(
            "/health",
            health.healthy,
            summary="Whether the process serves",
            responses={200: {"model": HealthAnswer}},
            needs_token=False,
        ),
        build.get(
            "/health/ready",
            health.ready,
            summary="Whether traffic should come here",
            responses={
                200: {"model": ReadinessAnswer},
                503: {"model": ReadinessAnswer, "description": "starting or stopping"},
            },
            needs_token=False,
        ),
        build.get(
            "/metrics",
            health.exposition,
            summary="Prometheus metrics",
            responses={200: {"content": {"text/plain": {}}}},
            needs_token=False,
        ),
    )
