"""Shows and changes this process's log level, for operators (contract §1)."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.http.api.answer_models import AnswerModel
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.openapi import Examples, Tag
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.request_refusals import add_to_operation
from mcp_tools_proxy.telemetry.logging import LevelName, LogLevel

PATH = "/internal/mcp/log-level"

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
    for_s: Annotated[float, AfterValidator(lambda it: round(it, 3))] | None = None


_LOG_LEVEL_EXAMPLES: Examples = {
    "for ten minutes": {"level": "debug", "for_s": 600},
    "until the next start": {"level": "warning"},
}


class LogLevelRoutes(Feature):
    """Operations on the log level."""

    tag = Tag.STATUS

    def __init__(
        self, log_level: LogLevel, change: Callable[[LevelName, float | None], Awaitable[None]]
    ) -> None:
        """Initialize; ``change`` sets a level for a number of seconds."""
        self._log_level = log_level
        self._change = change

    @operation("GET", PATH, "This replica's log level.", right=OperatorRight.CONFIG)
    async def get_log_level(self, parsed: ParsedRequest[None]) -> LogLevelAnswer:
        """Show the log level.

        Applies to the replica that receives the request. Requires the operator right `config`.
        """
        return self._answer()

    @operation(
        "PUT",
        PATH,
        "This replica's log level.",
        right=OperatorRight.CONFIG,
        examples=_LOG_LEVEL_EXAMPLES,
    )
    async def set_log_level(self, parsed: ParsedRequest[LogLevelChange]) -> LogLevelAnswer:
        """Change the log level.

        Applies to new log lines of the replica that receives the request. A restart restores the
        configured level. Requires the operator right `config`.
        """
        add_to_operation(
            parsed.request.scope,
            before=self._log_level.current,
            level=parsed.body.level,
            for_s=parsed.body.for_s,
        )
        await self._change(parsed.body.level, parsed.body.for_s)
        return self._answer()

    def _answer(self) -> LogLevelAnswer:
        level = self._log_level
        return LogLevelAnswer(level=level.current, default=level.default, for_s=level.remaining_s)
