"""What the SDK is given of a request: no secret, and whom its session belongs to."""

from starlette.types import Scope

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.mcp_server.http.authentication import authenticated_scope
from tests.support.builders import make_caller

SENT = {
    b"accept": b"application/json \t",
    b"authorization": b"Bearer secret",
    b"cookie": b"session=secret",
    b"mcp-session-id": b"abc",
    b"x-api-key": b"secret",
    b"x-tenant-id": b"tenant_1",
}
SCOPE: Scope = {"type": "http", "path": "/mcp", "headers": [*SENT.items()]}


def test_the_sdk_gets_no_secret_of_a_request() -> None:
    assert dict(authenticated_scope(SCOPE, make_caller())["headers"]) == {
        b"accept": b"application/json",
        b"mcp-session-id": b"abc",
    }


def test_requests_of_two_callers_are_of_two_users() -> None:
    """The SDK keeps a session for its user."""
    callers = [
        make_caller(),
        make_caller(tenant_id="tenant_2"),
        make_caller(agent="reader"),
        Caller(tenant_id="tenant_1", user_id="user_2"),
    ]
    users = {authenticated_scope(SCOPE, it)["user"].username for it in (*callers, *callers)}
    assert len(users) == len(callers)
