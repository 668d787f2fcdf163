"""The preset routes: list presets, show the active one, switch to another (contract §1, §6)."""

from functools import partial

from fastapi import APIRouter, Request, Response

from mcp_tools_proxy.api.admin_gate import AdminGate
from mcp_tools_proxy.api.callers import require_authentication
from mcp_tools_proxy.api.endpoint import EndpointFactory, ParsedRequest, validate
from mcp_tools_proxy.api.models import (
    ActivePresetAnswer,
    ErrorEnvelope,
    PresetChoice,
    PresetsAnswer,
)
from mcp_tools_proxy.api.openapi import (
    ERROR_RESPONSES,
    PRESET_EXAMPLES,
    READ_RESPONSES,
    Responses,
    request_body,
    security,
)
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.configuration import Missing
from mcp_tools_proxy.domain.view import Shadowed
from mcp_tools_proxy.gateway.reload import Reloader
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.fast_routes import DirectRoute
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER

_SWITCH_RESPONSES: Responses = {
    **ERROR_RESPONSES,
    200: {"model": ActivePresetAnswer},
    404: {"model": ErrorEnvelope, "description": "PRESET_NOT_FOUND"},
    409: {"model": ErrorEnvelope, "description": "PRESET_PINNED, CONFIG_READ_ONLY"},
    503: {"model": ErrorEnvelope, "description": "SHUTTING_DOWN"},
}


def preset_routes(
    reloader: Reloader, endpoints: EndpointFactory, authenticator: Authenticator, gate: AdminGate
) -> APIRouter:
    """Build the preset routes; ``gate`` guards the one that switches."""
    router = APIRouter(route_class=DirectRoute)

    async def list_presets(request: Request, trace_id: str) -> Response:
        await require_authentication(authenticator, request)
        presets = await reloader.presets()
        shown = [{"id": preset.preset_id, "name": preset.name} for preset in presets]
        content = {"presets": shown, "active": reloader.active.preset_id}
        return json_response(content, headers={TRACE_HEADER: trace_id})

    async def show_active(request: Request, trace_id: str) -> Response:
        await require_authentication(authenticator, request)
        return json_response(_active(reloader), headers={TRACE_HEADER: trace_id})

    async def switch(parsed: ParsedRequest[PresetChoice]) -> Response:
        await gate.check(parsed.request.headers)
        body = parsed.body
        await reloader.switch(body.preset_id, persist=body.persist is not False)
        return json_response(_active(reloader), headers={TRACE_HEADER: parsed.trace_id})

    secured = security(needed=authenticator.needs_token)
    router.add_api_route(
        "/internal/mcp/presets",
        endpoints.without_body(list_presets),
        name="list_presets",
        summary="List the presets that can be chosen",
        response_class=Response,
        responses={200: {"model": PresetsAnswer}, **READ_RESPONSES},
        dependencies=secured,
    )
    router.add_api_route(
        "/internal/mcp/presets/active",
        endpoints.without_body(show_active),
        name="show_active",
        summary="Tell which preset is in force, and what it names in vain",
        response_class=Response,
        responses={200: {"model": ActivePresetAnswer}, **READ_RESPONSES},
        dependencies=secured,
    )
    router.add_api_route(
        "/internal/mcp/presets/active",
        endpoints.with_body(partial(validate, PresetChoice), switch),
        methods=["PUT"],
        name="switch_preset",
        summary="Put another preset in force",
        description=(
            "Needs `Authorization: Bearer <token>` with the admin token, or, where callers need "
            "tokens, an operator's. A service where they do not, without an admin token, takes it "
            "only while it listens on a loopback address. Every later call sees the new preset."
        ),
        response_class=Response,
        responses=_SWITCH_RESPONSES,
        openapi_extra=request_body(PresetChoice, PRESET_EXAMPLES),
        dependencies=security(needed=gate.needs_token),
    )
    return router


def _active(reloader: Reloader) -> dict[str, object]:
    shown: dict[str, object] = {
        "preset": {"id": reloader.active.preset_id, "name": reloader.active.name},
        "missing": [_item(item) for item in reloader.missing],
    }
    if pending := reloader.pending:
        shown["pending"] = pending
    if reloader.shadowed:
        shown["shadowed"] = [{**_item(item), "winner": item.winner} for item in reloader.shadowed]
    if reloader.problems:
        shown["problems"] = reloader.problems
    return shown


def _item(item: Missing | Shadowed) -> dict[str, object]:
    return {"kind": item.kind.value, "server_id": item.server_id, "name": item.name}
