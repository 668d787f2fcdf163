"""Models of the log level's request and response.

Their docstrings are part of the OpenAPI document: callers read them.
"""

from typing import Annotated

from pydantic import BaseModel, Field

from mcp_tools_proxy.api.openapi.answer_models import AnswerModel
from mcp_tools_proxy.telemetry.log_level import LevelName

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
