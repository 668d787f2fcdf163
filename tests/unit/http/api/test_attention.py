from mcp_tools_proxy.domain.server import ServerState, ServerStatus, Transport
from mcp_tools_proxy.http.api.overview_routes import for_tenant
from tests.support.tables import each_row


def messages(state: ServerState, *, stale: bool = False, error: str | None = None) -> list[object]:
    status = ServerStatus(
        server_id="s1", state=state, transport=Transport.HTTP, stale=stale, last_error=error
    )
    return [it.message for it in for_tenant([status], {}, "t")]


@each_row(
    ("state", "stale", "error", "message"),
    [
        (ServerState.READY, False, None, None),
        (
            *(ServerState.READY, True, "a secret"),
            "connected, but its lists could not be refreshed",
        ),
        (ServerState.DISABLED, False, None, None),
        (ServerState.CONNECTING, False, None, None),
        (ServerState.UNREACHABLE, False, "a secret", "its state is unreachable"),
        (ServerState.RECONNECTING, True, "a secret", "its state is reconnecting"),
        (ServerState.FAILED, False, "a secret", "its state is failed"),
        (ServerState.INVALID, False, None, "its state is invalid"),
        (ServerState.LOGIN_REQUIRED, True, "a secret", None),
    ],
)
def test_a_failing_server_is_named_with_its_state(
    state: ServerState, stale: bool, error: str | None, message: str | None
) -> None:
    assert messages(state, stale=stale, error=error) == ([] if message is None else [message])
