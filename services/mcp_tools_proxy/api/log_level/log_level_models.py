"""Models of the log level's request and response.

Their docstrings are part of the OpenAPI document: callers read them.
"""

from typing import Annotated

from pydantic import BaseModel, Field

from mcp_tools_proxy.api.openapi.answer_models import AnswerModel
from mcp_tools_proxy.telemetry.log_level import LevelName

LevelField = Annotated[LevelName, Field(title="LogLevelName")]


class LogLevelChange(BaseModel):
    """The level to log from, and for how many seconds; without them until the next change."""

    level: LevelField
    for_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class LogLevelAnswer(AnswerModel, title="LogLevel"):
    """The level in force, and that of the settings.

    ``for_s`` are the seconds after which the level of the settings is in force again.
    """

    level: LevelField
    default: LevelField
    for_s: float | None = None
