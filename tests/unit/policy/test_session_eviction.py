import pytest

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.policy.tenant_share import IdleSession, select_session_to_evict
from tests.support.tables import each_row


def evicted(idle: str, tenants: dict[str, int], newcomer: str) -> str:
    """Evict among idle sessions such as ``a1``: tenant a, times out at 1."""
    # f-strings: each request has a different object for the tenant's name
    sessions = [IdleSession(it, f"tenant_{it[0]}", float(it[1:])) for it in idle.split()]
    counts = {f"tenant_{name}": count for name, count in tenants.items()}
    return select_session_to_evict(sessions, counts, f"tenant_{newcomer}", limit=4)


def test_the_longest_idle_session_is_evicted() -> None:
    assert evicted("a3 a1 a2", {"a": 4}, "a") == "a1"


def test_the_first_of_equally_idle_sessions_is_evicted() -> None:
    assert evicted("a1 a1.0", {"a": 4}, "a") == "a1"


@each_row("newcomer", ["a", "b", "c"])
def test_a_tenant_with_many_sessions_loses_one_of_its_sessions(newcomer: str) -> None:
    assert evicted("b1 a3 a2", {"a": 3, "b": 1}, newcomer) == "a2"


def test_a_tenant_with_the_most_sessions_evicts_one_of_its_sessions() -> None:
    assert evicted("b1 a2", {"a": 3, "b": 1}, "a") == "a2"


@each_row(("large", "small"), ["ab", "ba"])
def test_a_tenant_with_the_most_sessions_cannot_evict_other_tenants(large: str, small: str) -> None:
    with pytest.raises(CapacityExceeded, match="4 sessions are open and in use"):
        evicted(f"{small}1", {large: 3, small: 1}, large)


def test_a_tenant_with_equally_many_sessions_evicts_one_of_its_sessions() -> None:
    assert evicted("b1 a2", {"a": 2, "b": 2}, "a") == "a2"


def test_without_idle_sessions_the_new_session_is_refused() -> None:
    with pytest.raises(CapacityExceeded):
        evicted("", {"a": 4}, "b")
