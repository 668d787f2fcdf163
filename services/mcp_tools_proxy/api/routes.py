"""All routes of the HTTP API, in the order of the OpenAPI document (contract §1)."""

from collections.abc import Sequence

from mcp_tools_proxy.api.batch_routes import BatchBody, BatchHandlers
from mcp_tools_proxy.api.endpoint import BodyReader
from mcp_tools_proxy.api.execute_handlers import ExecuteHandlers
from mcp_tools_proxy.api.health_handlers import HealthHandlers
from mcp_tools_proxy.api.key_handlers import KeyHandlers
from mcp_tools_proxy.api.limit_routes import LimitHandlers, LimitsOrError, LimitsQuery
from mcp_tools_proxy.api.list_handlers import ListHandlers
from mcp_tools_proxy.api.models import (
    CallerQuery,
    ExecuteRequest,
    PresetChoice,
    PromptRequest,
    ResourceRequest,
    ToolsQuery,
)
from mcp_tools_proxy.api.openapi.answer_models import (
    ActivePresetAnswer,
    ErrorEnvelope,
    HealthAnswer,
    KeySetAnswer,
    PresetsAnswer,
    PromptsOrError,
    ReadinessAnswer,
    RemoteAnswer,
    ResourcesOrError,
    ToolsOrError,
)
from mcp_tools_proxy.api.openapi.examples import (
    BATCH_EXAMPLES,
    EXECUTE_EXAMPLES,
    PRESET_EXAMPLES,
    PROMPT_EXAMPLES,
    RESOURCE_EXAMPLES,
)
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import (
    CALLER_HEADERS,
    LIST_HEADERS,
    TOOL_HEADERS,
    TRACED,
)
from mcp_tools_proxy.api.openapi.responses import (
    BATCH_RESPONSES,
    CALL_RESPONSES,
    INVALID_NAME_STYLE,
    SHARED_ANSWERS,
    SWITCH_RESPONSES,
    Answer,
    budget_responses,
    list_responses,
    show_responses,
)
from mcp_tools_proxy.api.preset_handlers import PresetHandlers
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.api.status_handlers import StatusHandlers
from mcp_tools_proxy.domain.identity import OperatorRight
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
    limits: LimitHandlers,
    keys: KeyHandlers,
) -> Sequence[DirectRoute]:
    """Build every route of the HTTP API: a new one is one more entry here."""
    return (
        build.with_body(
            "POST",
            "/internal/mcp/execute",
            execute.execute,
            ExecuteRequest,
            operation_id="execute",
            tag=Tag.CALLS,
            examples=EXECUTE_EXAMPLES,
            summary="Run one tool",
            description=(
                "Errors that the model or its runtime can handle are 200 with status `error`. "
                "`docs/reference/errors.md` describes what to do about each code."
            ),
            responses=CALL_RESPONSES,
            headers=TOOL_HEADERS,
            is_fast=True,
        ),
        build.with_body(
            "POST",
            "/internal/mcp/execute/batch",
            batch.execute_batch,
            BodyReader(described=BatchBody, read=batch.read_batch),
            operation_id="execute_batch",
            tag=Tag.CALLS,
            examples=BATCH_EXAMPLES,
            summary="Run several tools in parallel",
            description=(
                "Calls are checked and charged individually; results are in the order of the "
                "calls. `calls` can also be part of a model's answer, unchanged: `tool_calls` of "
                "OpenAI's Chat Completions, `output` of OpenAI's Responses, `content` of "
                "Anthropic's Messages, or `parts` of Gemini's content. In this case, `messages` "
                "are the messages to append to the conversation."
            ),
            responses=BATCH_RESPONSES,
            headers=TOOL_HEADERS,
            is_fast=True,
        ),
        build.with_body(
            "POST",
            "/internal/mcp/prompts/get",
            execute.get_prompt,
            PromptRequest,
            operation_id="get_prompt",
            tag=Tag.CALLS,
            examples=PROMPT_EXAMPLES,
            summary="Get one prompt",
            description="The result contains the `messages` of the server.",
            responses=CALL_RESPONSES,
            headers=CALLER_HEADERS,
            is_fast=True,
        ),
        build.with_body(
            "POST",
            "/internal/mcp/resources/read",
            execute.read_resource,
            ResourceRequest,
            operation_id="read_resource",
            tag=Tag.CALLS,
            examples=RESOURCE_EXAMPLES,
            summary="Read one resource",
            description="The result contains the `contents` of the server.",
            responses=CALL_RESPONSES,
            headers=CALLER_HEADERS,
            is_fast=True,
        ),
        build.get(
            "/internal/mcp/tools",
            lists.list_tools,
            operation_id="list_tools",
            tag=Tag.LISTS,
            summary="List tools that the caller may run",
            description=(
                "Lists tools in MCP format, or in the format of a model API with aliases as "
                "names. The output is byte-identical as long as the tools do not change. With "
                "`preset_id`, operators with the right `audit` get the list for another preset "
                "and another caller, who is named only in the query."
            ),
            responses={
                **list_responses(ToolsOrError),
                400: INVALID_NAME_STYLE,
                404: SHARED_ANSWERS[404],
            },
            query=ToolsQuery,
            headers=LIST_HEADERS,
        ),
        build.get(
            "/internal/mcp/prompts",
            lists.list_prompts,
            operation_id="list_prompts",
            tag=Tag.LISTS,
            summary="List prompts that the caller may get",
            responses=list_responses(PromptsOrError),
            query=CallerQuery,
            headers=LIST_HEADERS,
        ),
        build.get(
            "/internal/mcp/resources",
            lists.list_resources,
            operation_id="list_resources",
            tag=Tag.LISTS,
            summary="List resources that the caller may read",
            responses=list_responses(ResourcesOrError),
            query=CallerQuery,
            headers=LIST_HEADERS,
        ),
        build.get(
            "/internal/mcp/limits",
            limits.list_limits,
            operation_id="list_limits",
            tag=Tag.STATUS,
            summary="Show the remaining budgets of a call",
            description=(
                "Charges nothing. Shows the caller's own tenant. Another tenant, user or agent "
                "requires the operator right `audit`."
            ),
            responses=budget_responses(LimitsOrError, "The budgets of the call."),
            query=LimitsQuery,
            headers=CALLER_HEADERS,
        ),
        build.get(
            "/internal/mcp/presets",
            presets.list_presets,
            operation_id="list_presets",
            tag=Tag.PRESETS,
            summary="List presets",
            responses=show_responses(PresetsAnswer, "The presets and the id of the active one."),
            headers=TRACED,
        ),
        build.get(
            "/internal/mcp/presets/active",
            presets.show_active,
            operation_id="get_active_preset",
            tag=Tag.PRESETS,
            summary="Show the active preset and its unavailable items",
            responses=show_responses(ActivePresetAnswer, "The active preset."),
            headers=TRACED,
        ),
        build.with_body(
            "PUT",
            "/internal/mcp/presets/active",
            presets.switch_preset,
            PresetChoice,
            operation_id="set_active_preset",
            tag=Tag.PRESETS,
            examples=PRESET_EXAMPLES,
            summary="Switch the active preset",
            description=(
                "All later calls use the new preset. Requires a bearer token: the admin token, "
                "or, if callers need tokens, one with the operator right `presets`. Without an "
                "admin token and callers' tokens, presets can be switched only while the gateway "
                "listens on a loopback address."
            ),
            responses=SWITCH_RESPONSES,
            headers=TRACED,
            needs_token=presets.switch_needs_token,
            right=OperatorRight.PRESETS,
        ),
        build.get(
            "/internal/mcp/remote",
            status.show_remote,
            operation_id="get_remote",
            tag=Tag.STATUS,
            summary="Show the state of the connection to the remote backend",
            responses=show_responses(RemoteAnswer, "The state of the connection."),
            headers=TRACED,
        ),
        build.get(
            "/health",
            health.healthy,
            operation_id="get_health",
            tag=Tag.HEALTH,
            summary="Liveness check",
            responses={200: Answer("The process is alive.", HealthAnswer, headers=())},
            needs_token=False,
        ),
        build.get(
            "/health/ready",
            health.ready,
            operation_id="get_readiness",
            tag=Tag.HEALTH,
            summary="Readiness check",
            responses={
                200: Answer(
                    ("Ready or degraded: the replica serves calls."), ReadinessAnswer, headers=()
                ),
                503: Answer("Starting or stopping.", ReadinessAnswer, headers=()),
            },
            needs_token=False,
        ),
        build.get(
            "/metrics",
            health.exposition,
            operation_id="get_metrics",
            tag=Tag.HEALTH,
            summary="Prometheus metrics",
            description="Requires the token in `MCP_PROXY_METRICS_TOKEN`, if it is set.",
            responses={
                200: Answer("The metrics.", headers=(), text="text/plain"),
                401: SHARED_ANSWERS[401],
                422: SHARED_ANSWERS[422],
            },
            needs_token=health.metrics_need_token,
        ),
        build.get(
            "/.well-known/jwks.json",
            keys.show_keys,
            operation_id="get_signing_keys",
            tag=Tag.HEALTH,
            summary="Public keys for verifying caller assertions",
            responses={
                200: Answer("A JSON Web Key Set (RFC 7517).", KeySetAnswer, headers=()),
                404: Answer("NOT_FOUND: the gateway has no signing key.", ErrorEnvelope),
            },
            needs_token=False,
        ),
    )
