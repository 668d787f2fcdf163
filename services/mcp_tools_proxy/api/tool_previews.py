"""Lists the tools that a caller would see with a preset, and what an operator judges that by."""

from mcp_tools_proxy.api.callers import asserted_by_query
from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.models import ToolsQuery
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.api.preset_handlers import shown_state
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.preset_switch import PresetPreview, PresetPreviews
from mcp_tools_proxy.registry.tool_lists import ListBody, ToolList
from mcp_tools_proxy.telemetry.recorder import cut
from mcp_tools_proxy.web.request_refusals import add_to_operation
from mcp_tools_proxy.wire.text import estimate_tokens


class ToolPreviews:
    """Lists tools of any caller: the operator stands in for the one that the query names."""

    def __init__(
        self,
        previews: PresetPreviews,
        gate: OperatorGate,
        callers: CallerResolver,
        first_attempts: FirstAttempts,
    ) -> None:
        self._previews = previews
        self._gate = gate
        self._callers = callers
        self._first_attempts = first_attempts

    async def list_tools(
        self,
        parsed: ParsedRequest[None],
        query: ToolsQuery,
        preset_id: str,
        requested_style: ToolNameStyle | None,
    ) -> ListBody:
        """List the tools with a preset. Raises as the gate and a switch do, and as any list."""
        operator = await self._gate.check(parsed, OperatorRight.AUDIT, tenant_id=query.tenant_id)
        named = {"preset_id": preset_id, "user_id": query.user_id, "agent": query.agent}
        add_to_operation(parsed.request.scope, **{key: cut(it) for key, it in named.items() if it})
        caller = self._callers.resolve_trusted(asserted_by_query(query))
        preview = await self._previews.preview(preset_id)
        registry = preview.registry
        style = registry.name_styles.over_http(requested_style, caller.agent)
        tools = await registry.list_tools(caller, query.format, query.names, style)
        pending = self._first_attempts.pending_for(caller, Kind.TOOL, registry)
        permissions = registry.access_rules.permissions_of(caller)
        instructions = registry.instructions.text_for(permissions)
        shown = _shown(preview, tools)
        if operator.tenant_id is None:
            shown["agents"] = sorted(registry.access_rules.agents or ())
        else:  # paths and values of files are of all tenants
            shown.pop("problems", None)
        more = {"instructions": instructions, "pending": pending or None, "preview": shown}
        return ListBody.of(tools, without_none(more))


def _shown(preview: PresetPreview, tools: ToolList) -> dict[str, object]:
    costs = [estimate_tokens(size) for size in tools.sizes]
    listed = [
        without_none(
            {
                "name": name,
                "server_id": spec.server_id,
                "server_name": None if spec.server_id is None else spec.bare_name,
                "tokens": tokens,
            }
        )
        for name, spec, tokens in zip(tools.names, tools.specs, costs, strict=True)
    ]
    return {
        **shown_state(preview.state),
        "active": preview.is_active,
        "tokens": sum(costs),
        "tools": listed,
    }
