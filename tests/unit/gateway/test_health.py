"""What a replica says of itself and of what it depends on."""

from collections.abc import Mapping

from mcp_tools_proxy.domain.backend_link import RemoteState, RemoteStatus
from mcp_tools_proxy.domain.server import ServerState, ServerStatus
from mcp_tools_proxy.gateway.health import Health, Readiness, ReadinessCheck, backend_readiness
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from tests.support.tables import each_row

SINCE = "2026-11-22T03:23:42.207933Z"


def health(remote_check: ReadinessCheck) -> Health:
    """Build the health of a replica that serves, whose documents are well."""
    lifecycle = Lifecycle()
    lifecycle.phase = Phase.SERVING
    return Health(lifecycle, {"documents": lambda: {"status": "ok"}, "remote": remote_check})


def remote(state: RemoteState, last_error: str | None = None) -> RemoteStatus:
    return RemoteStatus(
        state=state,
        since=SINCE,
        server_identifier="gateway",
        backend="wss://backend.example:443",
        last_error=last_error,
        attempts=0,
        next_attempt_s=None,
        links=1,
        sessions=0,
        open_requests=0,
        waiting_bytes=0,
    )


def test_each_dependency_has_its_check() -> None:
    replica = health(lambda: {"status": "ok"})
    assert replica.readiness().checks.keys() == {"documents", "remote"}


def test_a_check_is_asked_anew_each_time() -> None:
    states = ["degraded"]
    replica = health(lambda: {"status": states[0]})
    before = replica.readiness().status
    states[0] = "ok"
    assert (before, replica.readiness().status) == ("degraded", "ready")


def test_a_backend_with_a_link_is_well() -> None:
    line = backend_readiness(remote(RemoteState.ONLINE))
    assert line == {"status": "ok", "state": "online", "since": SINCE}


@each_row("state", [RemoteState.CONNECTING, RemoteState.OFFLINE, RemoteState.UNAUTHORIZED])
def test_a_backend_without_a_link_degrades(state: RemoteState) -> None:
    line = backend_readiness(remote(state))
    assert (line["status"], line["state"]) == ("degraded", state.value)


def test_a_lost_backend_says_why() -> None:
    assert (
        backend_readiness(remote(RemoteState.OFFLINE, "it hung up"))["last_error"] == "it hung up"
    )


@each_row("state", RemoteState)
def test_traffic_goes_on_coming_whatever_the_backend_is(state: RemoteState) -> None:
    replica = health(lambda: backend_readiness(remote(state)))
    assert replica.readiness().serving


@each_row(
    ("phase", "started", "status"),
    [
        (Phase.STARTING, True, "starting"),
        (Phase.SERVING, False, "starting"),
        (Phase.SERVING, True, "ready"),
        (Phase.STOPPING, True, "stopping"),
    ],
)
def test_a_replica_is_ready_while_it_serves_and_its_start_is_over(
    phase: Phase, *, started: bool, status: str
) -> None:
    lifecycle = Lifecycle()
    lifecycle.phase = phase
    assert Health(lifecycle, {}, started=lambda: started).readiness().status == status


def of_server(
    state: ServerState, *, stale: bool = False, problems: tuple[str, ...] = ()
) -> Mapping[str, object]:
    """Return the check of a server in this state."""
    server = ServerStatus(
        server_id="a", state=state, transport=None, stale=stale, problems=problems
    )
    lifecycle = Lifecycle()
    lifecycle.phase = Phase.SERVING
    return Health(lifecycle, {}, lambda: [server]).readiness().checks["server:a"]


@each_row(
    ("state", "status"),
    [
        (ServerState.CONNECTING, "degraded"),
        (ServerState.READY, "ok"),
        (ServerState.RECONNECTING, "degraded"),
        (ServerState.DISABLED, "ok"),
        (ServerState.INVALID, "degraded"),
    ],
)
def test_a_server_is_well_that_is_ready_or_not_wanted(state: ServerState, status: str) -> None:
    found = of_server(state)
    assert (found["status"], found["state"], "reason" in found) == (
        status,
        state.value,
        status == "degraded",
    )


def test_a_server_whose_items_may_be_out_of_date_degrades() -> None:
    found = of_server(ServerState.READY, stale=True)
    assert found == {"status": "degraded", "state": "ready", "stale": True}


def test_a_server_whose_entry_has_problems_degrades_and_says_which() -> None:
    found = of_server(ServerState.READY, problems=("url: is missing",))
    assert found == {
        "status": "degraded",
        "state": "ready",
        "stale": False,
        "problems": ("url: is missing",),
    }


def test_who_is_no_operator_sees_states_and_numbers_only() -> None:
    check = {
        "status": "degraded",
        "state": "offline",
        "tokens": 3,
        "age_s": 1.5,
        "stale": True,
        "file": "cannot be read: /etc/tokens",
        "problems": ["line 2"],
    }
    assert Readiness("degraded", {"it": check}).brief.checks["it"] == {
        "status": "degraded",
        "state": "offline",
        "tokens": 3,
        "age_s": 1.5,
        "stale": True,
    }
