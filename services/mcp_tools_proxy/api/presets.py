"""Which presets there are, which one is in force, and choosing another one (contract §1, §6)."""

from functools import partial

from fastapi import APIRouter, Request, Response

from mcp_tools_proxy.api.admin import AdminGate
from mcp_tools_proxy.api.describe import ERROR_RESPONSES, Responses, request_body
from mcp_tools_proxy.api.direct import DirectRoute
from mcp_tools_proxy.api.envelope import json_response
from mcp_tools_proxy.api.examples import PRESET_EXAMPLES
from mcp_tools_proxy.api.intake import Intake, Received
from mcp_tools_proxy.api.models import (
    ActivePresetAnswer,
    ErrorEnvelope,
    PresetChoice,
    PresetsAnswer,
)
from mcp_tools_proxy.api.requests import validate
from mcp_tools_proxy.domain.preset import Missing
from mcp_tools_proxy.domain.view import Shadowed
from mcp_tools_proxy.gateway.reload import Reloader
from mcp_tools_proxy.web.trace import TRACE_HEADER, trace_id_from

_SWITCH_RESPONSES: Responses = {
    **ERROR_RESPONSES,
    200: {"model": ActivePresetAnswer},
    401: {"model": ErrorEnvelope, "description": "UNAUTHENTICATED"},
    403: {"model": ErrorEnvelope, "description": "FORBIDDEN"},
    404: {"model": ErrorEnvelope, "description": "PRESET_NOT_FOUND"},
    409: {"model": ErrorEnvelope, "description": "PRESET_PINNED, CONFIG_READ_ONLY"},
    503: {"model": ErrorEnvelope, "description": "SHUTTING_DOWN"},
}


def preset_routes(reloader: Reloader, intake: Intake, gate: AdminGate) -> APIRouter:
    """Build the routes about presets; ``gate`` guards the one that changes something."""
    router = APIRouter(route_class=DirectRoute)

    @router.get(
        "/internal/mcp/presets",
        summary="List the presets that can be chosen",
        response_class=Response,
        responses={200: {"model": PresetsAnswer}},
    )
    async def list_presets(request: Request) -> Response:
        presets = await reloader.presets()
        shown = [{"id": preset.preset_id, "name": preset.name} for preset in presets]
        content = {"presets": shown, "active": reloader.active.preset_id}
        return json_response(content, headers=_trace_header(request))

    @router.get(
        "/internal/mcp/presets/active",
        summary="Tell which preset is in force, and what it names in vain",
        response_class=Response,
        responses={200: {"model": ActivePresetAnswer}},
    )
    async def show_active(request: Request) -> Response:
        return json_response(_active(reloader), headers=_trace_header(request))

    async def switch(received: Received[PresetChoice]) -> Response:
        gate.check(received.request.headers)
        asked = received.body
        await reloader.switch(asked.preset_id, persist=asked.persist is not False)
        return json_response(_active(reloader), headers={TRACE_HEADER: received.trace_id})

    router.add_api_route(
        "/internal/mcp/presets/active",
        intake.endpoint(partial(validate, PresetChoice), switch),
        methods=["PUT"],
        name="switch_preset",
        summary="Put another preset in force",
        description=(
            "Needs `Authorization: Bearer <admin token>`; a service without an admin token takes "
            "it only while it listens on a loopback address. Every later call sees the new preset."
        ),
        response_class=Response,
        responses=_SWITCH_RESPONSES,
        openapi_extra=request_body(PresetChoice, PRESET_EXAMPLES),
    )
    return router


def _active(reloader: Reloader) -> dict[str, object]:
    shown: dict[str, object] = {
        "preset": {"id": reloader.active.preset_id, "name": reloader.active.name},
        "missing": [_item(item) for item in reloader.missing],
    }
    if reloader.shadowed:
        shown["shadowed"] = [{**_item(item), "winner": item.winner} for item in reloader.shadowed]
    if reloader.problems:
        shown["problems"] = reloader.problems
    return shown


def _item(item: Missing | Shadowed) -> dict[str, object]:
    return {"kind": item.kind.value, "server_id": item.server_id, "name": item.name}


def _trace_header(request: Request) -> dict[str, str]:
    return {TRACE_HEADER: trace_id_from(None, request.headers)}
