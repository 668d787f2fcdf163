"""How many refused tokens an address has in its minute."""

from mcp_tools_proxy.web.bad_token_counts import (
    MAX_ADDRESSES,
    MAX_REFUSED,
    WINDOW_S,
    BadTokenCounts,
)
from tests.support.virtual_time import ManualClock


def refused(times: int, address: str = "203.0.113.7") -> tuple[BadTokenCounts, ManualClock]:
    clock = ManualClock()
    tokens = BadTokenCounts(clock)
    for _ in range(times):
        tokens.count(address)
    return tokens, clock


def test_below_the_limit_nobody_waits() -> None:
    tokens, _ = refused(MAX_REFUSED - 1)
    assert tokens.wait_s("203.0.113.7") is None


def test_at_the_limit_the_address_waits_for_its_window_to_end_and_no_other_does() -> None:
    tokens, clock = refused(MAX_REFUSED)
    clock.now += 15
    assert (tokens.wait_s("203.0.113.7"), tokens.wait_s("203.0.113.8")) == (WINDOW_S - 15, None)


def test_when_its_window_has_ended_an_address_begins_anew() -> None:
    tokens, clock = refused(MAX_REFUSED * 2)
    clock.now += WINDOW_S
    assert tokens.wait_s("203.0.113.7") is None
    assert len(tokens) == 0


def test_the_addresses_of_one_ipv6_network_count_together() -> None:
    tokens, _ = refused(0)
    for number in range(MAX_REFUSED):
        tokens.count(f"2001:db8::{number:x}")
    assert tokens.wait_s("2001:db8::ffff") == WINDOW_S
    assert len(tokens) == 1


def test_however_many_addresses_send_bad_tokens_memory_is_bounded() -> None:
    tokens, _ = refused(MAX_REFUSED)
    for number in range(MAX_ADDRESSES + 500):
        tokens.count(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(tokens) == MAX_ADDRESSES
