"""How long to wait before the backend is dialled again: short for accidents, long for refusals."""

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.mcp.connector.backend_dialer import pause_before_dial
from mcp_tools_proxy.mcp.connector.websocket_link import FaultKind, LinkFault
from tests.support.tables import each_row

LONGEST_S = 1.5
"""The default of ``remote_retry_max_s``: a backend that returns is found within 2 s."""
ACCIDENTS = (FaultKind.LOST, FaultKind.UNREACHABLE)
MEANT = (FaultKind.CLOSED, FaultKind.REFUSED)

kinds = st.sampled_from([*ACCIDENTS, *MEANT])
randoms = st.floats(0, 1, exclude_max=True)
setbacks = st.integers(0, 10_000)


def pause(
    kind: FaultKind,
    setbacks: int = 0,
    *,
    random: float = 1.0,
    retry_after_s: float | None = None,
    uptime_s: float = 0.0,
    longest_s: float = LONGEST_S,
) -> float:
    fault = LinkFault(kind, "it broke", retry_after_s=retry_after_s)
    return pause_before_dial(
        fault, setbacks, lambda: random, uptime_s=uptime_s, longest_s=longest_s
    )


@each_row("kind", ACCIDENTS)
def test_after_an_accident_pauses_double_up_to_the_setting(kind: FaultKind) -> None:
    assert [pause(kind, number) for number in range(5)] == [0.25, 0.5, 1.0, 1.5, 1.5]


@each_row("kind", MEANT)
def test_after_a_refusal_pauses_double_up_to_half_a_minute(kind: FaultKind) -> None:
    pauses = [pause(kind, number) for number in range(7)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_setting_over_half_a_minute_holds_for_refusals_too() -> None:
    assert pause(FaultKind.REFUSED, 10, longest_s=60.0) == 60.0


@given(kinds, setbacks, randoms)
def test_a_pause_is_between_half_of_its_time_and_all_of_it(
    kind: FaultKind, number: int, random: float
) -> None:
    whole = pause(kind, number)
    assert whole / 2 <= pause(kind, number, random=random) <= whole


@given(st.sampled_from(ACCIDENTS), setbacks, randoms)
def test_after_any_number_of_accidents_a_backend_is_found_within_two_seconds_of_its_return(
    kind: FaultKind, number: int, random: float
) -> None:
    assert 0.1 < pause(kind, number, random=random) < 2


@given(kinds, setbacks, randoms, st.floats(0, 29.9))
def test_a_link_that_was_up_for_a_moment_is_never_dialled_again_at_once(
    kind: FaultKind, number: int, random: float, uptime_s: float
) -> None:
    assert pause(kind, number, random=random, uptime_s=uptime_s) > 0.1


@each_row("kind", [*ACCIDENTS, *MEANT])
def test_a_link_that_was_up_for_half_a_minute_is_dialled_again_at_once(kind: FaultKind) -> None:
    assert pause(kind, 10, uptime_s=30.0) == 0.0


@each_row("kind", [FaultKind.UNREACHABLE, FaultKind.REFUSED])
def test_a_backend_is_left_alone_for_as_long_as_it_asks(kind: FaultKind) -> None:
    assert pause(kind, retry_after_s=7.0) == 7.0


def test_no_backend_keeps_the_gateway_away_for_ever() -> None:
    assert pause(FaultKind.REFUSED, retry_after_s=1e9) == 300.0


@given(kinds, setbacks, randoms, st.floats(0, 1e300))
def test_what_a_backend_asks_for_shortens_no_pause(
    kind: FaultKind, number: int, random: float, retry_after_s: float
) -> None:
    pause_s = pause(kind, number, random=random, retry_after_s=retry_after_s)
    assert pause_s >= pause(kind, number, random=random)
