from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.system.backoff import Backoff

HALF = Backoff(first_s=0.5, longest_s=30.0)
FULL = Backoff(first_s=0.3, longest_s=30.0, least_share=0.0, shortest_s=0.05)
NONE = Backoff(first_s=0.05, longest_s=0.25, least_share=1.0)

failures = st.integers(0, 100_000)
randoms = st.floats(0, 1)


def test_pauses_double_up_to_the_maximum() -> None:
    pauses = [HALF.pause_s(number, lambda: 1.0) for number in range(8)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


@given(failures, randoms)
def test_jitter_is_at_most_half_of_a_pause(number: int, random: float) -> None:
    whole = HALF.pause_s(number, lambda: 1.0)
    assert whole / 2 <= HALF.pause_s(number, lambda: random) <= whole


@given(failures)
def test_full_jitter_can_reach_the_minimum_pause(number: int) -> None:
    assert FULL.pause_s(number, lambda: 0.0) == 0.05


@given(failures, randoms)
def test_without_jitter_pauses_are_deterministic(number: int, random: float) -> None:
    assert NONE.pause_s(number, lambda: random) == min(0.25, 0.05 * 2 ** min(number, 10))
