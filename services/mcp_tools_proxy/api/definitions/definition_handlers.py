"""Shows the definitions that are not as locked, and accepts one, for operators (contract §1)."""

import asyncio

from fastapi import Response

from mcp_tools_proxy.api.definitions.definition_models import DefinitionChoice
from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.config.active_lock import ActiveLock
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.offers.definitions import DefinitionKey
from mcp_tools_proxy.gateway.definition_acceptance import DefinitionAcceptance
from mcp_tools_proxy.gateway.definition_guard import definition_facts
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.telemetry.recorder import cut
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.request_refusals import add_to_operation
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER


class DefinitionHandlers:
    """Handlers of definitions; both need the right DEFINITIONS."""

    def __init__(
        self, publisher: RegistryPublisher, acceptance: DefinitionAcceptance, gate: OperatorGate
    ) -> None:
        self._publisher = publisher
        self._acceptance = acceptance
        self._gate = gate

    async def show(self, parsed: ParsedRequest[None]) -> Response:
        """Show the definitions that are not as locked, each with its difference."""
        await self._gate.check(parsed, OperatorRight.DEFINITIONS)
        return await self._response(parsed.trace_id)

    async def accept(self, parsed: ParsedRequest[DefinitionChoice]) -> Response:
        """Accept the present definition of one item."""
        await self._gate.check(parsed, OperatorRight.DEFINITIONS)
        body = parsed.body
        add_to_operation(
            parsed.request.scope,
            "definition.accepted",
            server_id=body.server_id,
            kind=body.kind.value,
            name=cut(body.name),
            sha256=body.sha256,
        )
        key = DefinitionKey(body.server_id, body.kind, body.name)
        await self._acceptance.accept(key, body.sha256)
        return await self._response(parsed.trace_id)

    async def _response(self, trace_id: str) -> Response:
        publisher = self._publisher
        findings, lock = publisher.definitions.findings, publisher.config.lock
        remarkable = findings.remarkable
        items = await asyncio.to_thread(
            definition_facts, remarkable, publisher.snapshots, lock.lock
        )
        content = {
            "mode": findings.mode.value,
            "lock": _lock_state(lock),
            "as_locked": len(findings.items) - len(remarkable),
            "items": items,
        }
        return json_response(content, headers={TRACE_HEADER: trace_id})


def _lock_state(lock: ActiveLock) -> str:
    if lock.problems:
        return "broken"
    return "absent" if lock.lock is None else "good"
