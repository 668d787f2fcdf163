"""Shows and changes the level of this process's log, for operators (contract §1)."""

from fastapi import Response

from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.log_level.log_level_models import LogLevelChange
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.telemetry.log_level import LogLevel
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.request_refusals import add_to_operation
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER


class LogLevelHandlers:
    """Handlers of the log level; both need the right CONFIG."""

    def __init__(self, log_level: LogLevel, gate: OperatorGate) -> None:
        self._log_level = log_level
        self._gate = gate

    async def show(self, parsed: ParsedRequest[None]) -> Response:
        """Show the level in force."""
        await self._gate.check(parsed, OperatorRight.CONFIG)
        return self._response(parsed.trace_id)

    async def change(self, parsed: ParsedRequest[LogLevelChange]) -> Response:
        """Change the level, for some seconds or until the next change."""
        await self._gate.check(parsed, OperatorRight.CONFIG)
        add_to_operation(
            parsed.request.scope,
            before=self._log_level.current,
            level=parsed.body.level,
            for_s=parsed.body.for_s,
        )
        self._log_level.change(parsed.body.level, for_s=parsed.body.for_s)
        return self._response(parsed.trace_id)

    def _response(self, trace_id: str) -> Response:
        remaining_s = self._log_level.remaining_s
        content = {
            "level": self._log_level.current,
            "default": self._log_level.default,
            "for_s": None if remaining_s is None else round(remaining_s, 3),
        }
        return json_response(without_none(content), headers={TRACE_HEADER: trace_id})
