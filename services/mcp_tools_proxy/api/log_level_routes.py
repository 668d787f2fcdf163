"""Shows and changes the level of this process's log, for operators (contract §1).

The docstrings of models are part of the OpenAPI document: callers read them.
"""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, Field

from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.openapi.answer_models import AnswerModel
from mcp_tools_proxy.api.openapi.examples import LOG_LEVEL_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import SHARED_ANSWERS, show_responses
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.telemetry.logging import LevelName, LogLevel
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.fast_routes import DirectRoute
from mcp_tools_proxy.web.request_refusals import add_to_operation
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER

LevelField = Annotated[LevelName, Field(title="LogLevelName")]


class LogLevelChange(BaseModel):
    """The minimum level to log, and its duration in seconds; by default until the next change."""

    level: LevelField
    for_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class LogLevelAnswer(AnswerModel, title="LogLevel"):
    """The active and the configured log level.

    After ``for_s`` seconds the configured level is restored.
    """

    level: LevelField
    default: LevelField
    for_s: float | None = None


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


PATH = "/internal/mcp/log-level"


def log_level_routes(build: RouteBuilder, log_level: LogLevelHandlers) -> Sequence[DirectRoute]:
    """Build the routes; each needs the operator right ``config``."""
    responses = show_responses(LogLevelAnswer, "This replica's log level.")
    return (
        build.get(
            PATH,
            log_level.show,
            operation_id="get_log_level",
            tag=Tag.STATUS,
            summary="Show the log level",
            description=(
                "Applies to the replica that receives the request. Requires the operator "
                "right `config`."
            ),
            responses=responses,
            headers=TRACED,
            needs_token=True,
        ),
        build.with_body(
            "PUT",
            PATH,
            log_level.change,
            LogLevelChange,
            operation_id="set_log_level",
            tag=Tag.STATUS,
            examples=LOG_LEVEL_EXAMPLES,
            summary="Change the log level",
            description=(
                "Applies to new log lines of the replica that receives the request. A restart "
                "restores the configured level. Requires the operator right `config`."
            ),
            responses={**responses, 413: SHARED_ANSWERS[413]},
            headers=TRACED,
            needs_token=True,
            right=OperatorRight.CONFIG,
        ),
    )
