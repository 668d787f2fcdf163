import json

import pytest

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import (
    AgentRequired,
    Forbidden,
    InvalidRequest,
    PayloadTooLarge,
    ProxyError,
    ShuttingDown,
    Unauthenticated,
)
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity
from mcp_tools_proxy.mcp.server.http.endpoints import (
    asserted_by_path,
    json_rpc_error_response,
)
from tests.support.tables import each_row


@each_row(
    ("path_params", "asserted"),
    [({}, NO_ASSERTION), ({"agent": "reader"}, AssertedIdentity(agent="reader"))],
)
def test_the_agent_is_taken_from_the_path(
    path_params: dict[str, str], asserted: AssertedIdentity
) -> None:
    assert asserted_by_path({"path_params": path_params}) == asserted


@each_row("agent", ["", "a\x00b", "x" * 257])
def test_an_invalid_agent_id_in_the_path_is_refused(agent: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        asserted_by_path({"path_params": {"agent": agent}})
    assert caught.value.details == {"field": "path"}


@each_row(
    ("error", "status", "headers"),
    [
        (InvalidRequest("x"), 400, {}),
        (Unauthenticated("x"), 401, {"www-authenticate": "Bearer"}),
        (
            Unauthenticated("x", token_refused=True, retry_after_s=1.2),
            401,
            {"www-authenticate": 'Bearer error="invalid_token"', "retry-after": "2"},
        ),
        (Forbidden("x"), 403, {}),
        (AgentRequired("x"), 403, {}),
        (PayloadTooLarge("x"), 413, {"connection": "close"}),
        (ShuttingDown("x"), 503, {}),
        (CapacityExceeded("x"), 503, {}),
    ],
)
def test_each_refusal_has_its_status_and_headers(
    error: ProxyError, status: int, headers: dict[str, str]
) -> None:
    response = json_rpc_error_response(error, "t-1")
    sent = dict(response.headers.items())
    del sent["content-length"]
    assert (response.status_code, sent) == (
        status,
        {"x-trace-id": "t-1", "content-type": "application/json", **headers},
    )
    answer = json.loads(bytes(response.body))
    assert (answer["id"], answer["error"]["data"]["code"]) == (None, error.code)
