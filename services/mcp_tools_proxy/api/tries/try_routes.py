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
        summary="Try a tool call",
        description=(
            "Takes the body of `execute`, with tenant and user, and returns more details of the "
            "outcome. If the JWT of the request names that user, the call is made as that user, "
            "as with `execute`. Otherwise the operator calls on behalf of the user, which "
            "requires the right `run` for the tenant, and also `documents` for tools that read "
            "documents. Such a call counts as the user's, is charged to the tenant's budgets, "
            "and is recorded with the operator's token. Servers get no credentials of the user: "
            "if a server needs the user's login, secret or assertion, the call fails with "
            "LOGIN_REQUIRED or CREDENTIALS_MISSING."
        ),
        responses=call_responses(TryAnswer),
        headers=(*TRACED, IDEMPOTENCY_HEADER),
        needs_token=True,
        right=OperatorRight.RUN,
    )
