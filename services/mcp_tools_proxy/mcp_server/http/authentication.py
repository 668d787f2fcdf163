"""Reads the agent of an MCP path, and refuses requests."""

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Scope

from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity
from mcp_tools_proxy.web.error_status import error_headers, status_of
from mcp_tools_proxy.wire.identifiers import is_identifier
from mcp_tools_proxy.wire.mcp_protocol import INVALID_REQUEST, PARSE_ERROR
from mcp_tools_proxy.wire.request_json import BODY


def asserted_by_path(scope: Scope) -> AssertedIdentity:
    """Return the identity that the path of a request asserts, its agent. Raises InvalidRequest."""
    agent = scope.get("path_params", {}).get("agent")
    if agent is None:
        return NO_ASSERTION
    if not is_identifier(agent):
        raise InvalidRequest(
            "the agent in the path should be 1-256 characters without control characters",
            details={"field": "path"},
        )
    return AssertedIdentity(agent=agent)


def json_rpc_error_response(error: ProxyError, trace_id: str) -> Response:
    """Build the response to a refused request: a JSON-RPC error without an id."""
    is_json = (error.details or {}).get("field") != BODY
    error_object = {
        "code": INVALID_REQUEST if is_json else PARSE_ERROR,
        "message": error.message,
        "data": {**error.as_json, "trace_id": trace_id},
    }
    body = to_json({"jsonrpc": "2.0", "id": None, "error": error_object})
    return Response(body, status_of(error).mcp, error_headers(error, trace_id), "application/json")
