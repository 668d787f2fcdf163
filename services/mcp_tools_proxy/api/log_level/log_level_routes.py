"""The routes of the log level (contract §1)."""

from collections.abc import Sequence

from mcp_tools_proxy.api.log_level.log_level_handlers import LogLevelHandlers
from mcp_tools_proxy.api.log_level.log_level_models import LogLevelAnswer, LogLevelChange
from mcp_tools_proxy.api.openapi.examples import LOG_LEVEL_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import SHARED_ANSWERS, show_responses
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.web.fast_routes import DirectRoute

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
