"""What a replica says of itself and of what it depends on."""

import pytest

from mcp_tools_proxy.domain.backend_link import RemoteState, RemoteStatus
from mcp_tools_proxy.gateway.health import Health, ReadinessCheck, backend_readiness
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase

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


@pytest.mark.parametrize(
    "state", [RemoteState.CONNECTING, RemoteState.OFFLINE, RemoteState.UNAUTHORIZED]
)
def test_a_backend_without_a_link_degrades(state: RemoteState) -> None:
    line = backend_readiness(remote(state))
    assert (line["status"], line["state"]) == ("degraded", state.value)


def test_a_lost_backend_says_why() -> None:
    assert (
        backend_readiness(remote(RemoteState.OFFLINE, "it hung up"))["last_error"] == "it hung up"
    )


@pytest.mark.parametrize("state", RemoteState)
def test_traffic_goes_on_coming_whatever_the_backend_is(state: RemoteState) -> None:
    replica = health(lambda: backend_readiness(remote(state)))
    assert replica.readiness().serving
