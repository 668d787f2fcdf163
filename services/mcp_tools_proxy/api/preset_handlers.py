"""The preset handlers: list presets, show the active one, switch to another (contract §1, §6)."""

from fastapi import Response

from mcp_tools_proxy.api.callers import require_authentication
from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.models import PresetChoice
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.configuration import Missing
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.offers.view import Shadowed
from mcp_tools_proxy.gateway.building.preset_state import PresetState
from mcp_tools_proxy.gateway.preset_switch import PresetSwitch
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.telemetry.recorder import cut
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.request_refusals import add_to_operation
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER


class PresetHandlers:
    """Handlers of presets; ``gate`` guards the one that switches."""

    def __init__(
        self,
        preset_switch: PresetSwitch,
        publisher: RegistryPublisher,
        *,
        authenticator: Authenticator,
        gate: OperatorGate,
    ) -> None:
        self._preset_switch = preset_switch
        self._publisher = publisher
        self._authenticator = authenticator
        self._gate = gate

    @property
    def switch_needs_token(self) -> bool:
        """Whether a token is always required to switch."""
        return self._gate.needs_token(OperatorRight.PRESETS)

    async def list_presets(self, parsed: ParsedRequest[None]) -> Response:
        """List the presets that can be chosen."""
        await require_authentication(self._authenticator, parsed.request)
        presets = await self._preset_switch.list_presets()
        shown = [{"id": preset.preset_id, "name": preset.name} for preset in presets]
        content = {"presets": shown, "active": self._publisher.config.preset.preset_id}
        return json_response(content, headers={TRACE_HEADER: parsed.trace_id})

    async def show_active(self, parsed: ParsedRequest[None]) -> Response:
        """Show the active preset, and what of it is missing or shadowed."""
        await require_authentication(self._authenticator, parsed.request)
        return self._active(parsed.trace_id)

    async def switch_preset(self, parsed: ParsedRequest[PresetChoice]) -> Response:
        """Switch to another preset."""
        await self._gate.check(parsed, OperatorRight.PRESETS)
        body = parsed.body
        is_persisted = body.persist is not False
        add_to_operation(
            parsed.request.scope,
            "preset.switched",
            preset_id=cut(body.preset_id),
            before=self._publisher.config.preset.preset_id,
            persisted=is_persisted,
        )
        await self._preset_switch.switch_to(body.preset_id, persist=is_persisted)
        return self._active(parsed.trace_id)

    def _active(self, trace_id: str) -> Response:
        content = shown_state(self._publisher.preset_state)
        return json_response(content, headers={TRACE_HEADER: trace_id})


def shown_state(state: PresetState) -> dict[str, object]:
    """Return what operators are shown of a preset."""
    shown: dict[str, object] = {
        "preset": {"id": state.preset.preset_id, "name": state.preset.name},
        "missing": [
            {**_item(item), "reason": reason.why.value, "message": reason.text}
            for item, reason in state.missing
        ],
    }
    if state.pending:
        shown["pending"] = state.pending
    if state.shadowed:
        shown["shadowed"] = [{**_item(item), "winner": item.winner} for item in state.shadowed]
    if state.problems:
        shown["problems"] = state.problems
    return shown


def _item(item: Missing | Shadowed) -> dict[str, object]:
    return {"kind": item.kind.value, "server_id": item.server_id, "name": item.name}
