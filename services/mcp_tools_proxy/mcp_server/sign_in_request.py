"""Sends a user to a sign-in as MCP does it: by the URL elicitation of the client's era."""

from collections.abc import Mapping

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.errors import LoginRequired
from mcp_tools_proxy.domain.outcome import Failed, Outcome
from mcp_tools_proxy.mcp_server.request import SIGN_IN_KEY
from mcp_tools_proxy.mcp_server.results import Json, recorded
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import URL_ELICITATION_REQUIRED
from mcp_tools_proxy.wire.tracing import TRACE_ID_KEY


def sign_in_request(outcome: Outcome, call: Call, *, modern: bool, was_sent: bool) -> Json | None:
    """Return the ``input_required`` result of a call that needs a sign-in; None for all others.

    It is none either for a client that opens no addresses, and where the request ``was_sent``
    before: a client that repeats the call at once would never be told what is missing. Raises
    JsonRpcError, which is what the older eras have for it.
    """
    if was_sent or not isinstance(outcome, Failed) or not isinstance(outcome.error, LoginRequired):
        return None
    url = (outcome.error.details or {}).get("url")
    if not isinstance(url, str) or not _opens_urls(call.client.capabilities):
        return None
    server_id = (outcome.error.details or {}).get("server_id")
    message = f"Sign in to server {server_id}, then go on."
    request = {"mode": "url", "message": message, "url": url}
    if not modern:
        elicitation = {**request, "elicitationId": call.trace_id}
        raise recorded(
            JsonRpcError(
                URL_ELICITATION_REQUIRED, outcome.error.message, {"elicitations": [elicitation]}
            )
        )
    return {
        "resultType": "input_required",
        "inputRequests": {SIGN_IN_KEY: {"method": "elicitation/create", "params": request}},
        "_meta": {TRACE_ID_KEY: call.trace_id},
    }


def _opens_urls(capabilities: Mapping[str, object]) -> bool:
    elicitation = capabilities.get("elicitation")
    return isinstance(elicitation, Mapping) and isinstance(elicitation.get("url"), Mapping)
