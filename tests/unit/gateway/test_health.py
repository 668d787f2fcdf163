from collections.abc import Mapping

from mcp_tools_proxy.domain.backend_link import RemoteState, RemoteStatus
from mcp_tools_proxy.domain.server import ServerState, ServerStatus
from mcp_tools_proxy.gateway.health import Health, Readiness, ReadinessCheck, backend_readiness
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from tests.support.tables import each_row

SINCE = "2026-11-22T03:23:42.207933Z"


def health(remote_check: ReadinessCheck) -> Health:
    """Build the health of a serving replica with healthy documents."""
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


def test_each_report_runs_the_checks_again() -> None:
    states = ["degraded"]
    replica = health(lambda: {"status": states[0]})
    before = replica.readiness().status
    states[0] = "ok"
    assert (before, replica.readiness().status) == ("degraded", "ready")


def test_a_connected_backend_is_healthy() -> None:
    line = backend_readiness(remote(RemoteState.ONLINE))
    assert line == {"status": "ok", "state": "online", "since": SINCE}


@each_row("state", [RemoteState.CONNECTING, RemoteState.OFFLINE, RemoteState.UNAUTHORIZED])
def test_a_disconnected_backend_degrades(state: RemoteState) -> None:
    line = backend_readiness(remote(state))
    assert (line["status"], line["state"]) == ("degraded", state.value)


def test_a_lost_backend_is_reported_with_the_reason() -> None:
    assert (
        backend_readiness(remote(RemoteState.OFFLINE, "it hung up"))["last_error"] == "it hung up"
    )


@each_row("state", RemoteState)
def test_readiness_does_not_depend_on_the_backend(state: RemoteState) -> None:
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
def test_a_replica_is_ready_after_startup_while_serving(
    phase: Phase, *, started: bool, status: str
) -> None:
    lifecycle = Lifecycle()
    lifecycle.phase = phase
    assert Health(lifecycle, {}, started=lambda: started).readiness().status == status


def of_server(
    state: ServerState, *, stale: bool = False, problems: tuple[str, ...] = ()
) -> Mapping[str, object]:
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
def test_a_ready_or_disabled_server_is_healthy(state: ServerState, status: str) -> None:
    found = of_server(state)
    assert (found["status"], found["state"], "reason" in found) == (
        status,
        state.value,
        status == "degraded",
    )


def test_a_server_with_stale_items_degrades() -> None:
    found = of_server(ServerState.READY, stale=True)
    assert found == {"status": "degraded", "state": "ready", "stale": True}


def test_a_server_with_an_invalid_entry_degrades_with_the_problems() -> None:
    found = of_server(ServerState.READY, problems=("url: is missing",))
    assert found == {
        "status": "degraded",
        "state": "ready",
        "stale": False,
        "problems": ("url: is missing",),
    }


def test_callers_without_operator_rights_see_only_states_and_numbers() -> None:
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
