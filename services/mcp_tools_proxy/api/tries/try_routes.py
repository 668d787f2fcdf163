"""The route by which operators try tools (contract §1)."""

from mcp_tools_proxy.api.idempotency_header import IDEMPOTENCY_HEADER
from mcp_tools_proxy.api.models import ExecuteRequest
from mcp_tools_proxy.api.openapi.examples import EXECUTE_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import call_responses
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.api.tries.try_handlers import TryHandlers
from mcp_tools_proxy.api.tries.try_models import TryAnswer
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.web.fast_routes import DirectRoute


def try_route(build: RouteBuilder, tries: TryHandlers) -> DirectRoute:
    """Build the route; in another name it needs the operator right ``run``."""
    return build.with_body(
        "POST",
        "/internal/mcp/try",
        tries.try_tool,
        ExecuteRequest,
        operation_id="try_tool",
        tag=Tag.CALLS,
        examples=EXECUTE_EXAMPLES,
        summary="Run one tool, and see more of how it ends",
        description=(
            "The body is that of `execute`, with tenant and user. Whose JWT names that user makes "
            "the call in the own name, as by `execute`. Anybody else stands in for the user, which "
            "needs the right `run` for the tenant, and for a tool that reads documents `documents` "
            "as well: it is a call of that caller, charged to the tenant's budgets, and its record "
            "has the operator's token. A server is given nothing of the caller: where it needs a "
            "login, a secret or an assertion of the caller, the call is LOGIN_REQUIRED or "
            "CREDENTIALS_MISSING."
        ),
        responses=call_responses(TryAnswer),
        headers=(*TRACED, IDEMPOTENCY_HEADER),
        needs_token=True,
        right=OperatorRight.RUN,
    )
