"""Which idle session ends for a new one."""

import pytest

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.policy.tenant_share import IdleSession, select_session_to_evict
from tests.support.tables import each_row


def evicted(idle: str, tenants: dict[str, int], newcomer: str) -> str:
    """Select among idle sessions like ``a1``, of tenant a, which times out at 1."""
    # f-strings: a tenant's name is another object in each request
    sessions = [IdleSession(it, f"tenant_{it[0]}", float(it[1:])) for it in idle.split()]
    counts = {f"tenant_{name}": count for name, count in tenants.items()}
    return select_session_to_evict(sessions, counts, f"tenant_{newcomer}", limit=4)


def test_the_longest_idle_session_ends() -> None:
    assert evicted("a3 a1 a2", {"a": 4}, "a") == "a1"


def test_of_equally_idle_ones_the_first_ends() -> None:
    assert evicted("a1 a1.0", {"a": 4}, "a") == "a1"


@each_row("newcomer", ["a", "b", "c"])
def test_a_tenant_with_many_sessions_loses_its_own(newcomer: str) -> None:
    assert evicted("b1 a3 a2", {"a": 3, "b": 1}, newcomer) == "a2"


def test_a_tenant_that_has_the_most_evicts_its_own() -> None:
    assert evicted("b1 a2", {"a": 3, "b": 1}, "a") == "a2"


@each_row(("large", "small"), ["ab", "ba"])
def test_a_tenant_that_has_the_most_evicts_no_other(large: str, small: str) -> None:
    with pytest.raises(CapacityExceeded, match="4 sessions are open and in use"):
        evicted(f"{small}1", {large: 3, small: 1}, large)


def test_a_tenant_with_as_many_sessions_evicts_its_own_even_if_others_are_idle_longer() -> None:
    assert evicted("b1 a2", {"a": 2, "b": 2}, "a") == "a2"


def test_without_an_idle_session_none_ends() -> None:
    with pytest.raises(CapacityExceeded):
        evicted("", {"a": 4}, "b")
