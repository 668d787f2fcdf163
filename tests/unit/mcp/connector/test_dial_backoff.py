from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.mcp.connector.backend_dialer import pause_before_dial
from mcp_tools_proxy.mcp.connector.websocket_link import FaultKind, LinkFault
from tests.support.tables import each_row

LONGEST_S = 1.5
"""The default of ``remote_retry_max_s``: a backend is redialled within 2 s of its return."""
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
def test_after_failures_pauses_double_up_to_the_setting(kind: FaultKind) -> None:
    assert [pause(kind, number) for number in range(5)] == [0.25, 0.5, 1.0, 1.5, 1.5]


@each_row("kind", MEANT)
def test_after_refusals_pauses_double_up_to_half_a_minute(kind: FaultKind) -> None:
    pauses = [pause(kind, number) for number in range(7)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_setting_over_half_a_minute_also_applies_to_refusals() -> None:
    assert pause(FaultKind.REFUSED, 10, longest_s=60.0) == 60.0


@given(kinds, setbacks, randoms)
def test_the_jitter_of_a_pause_is_at_most_half_of_it(
    kind: FaultKind, number: int, random: float
) -> None:
    whole = pause(kind, number)
    assert whole / 2 <= pause(kind, number, random=random) <= whole


@given(st.sampled_from(ACCIDENTS), setbacks, randoms)
def test_a_backend_is_redialled_within_two_seconds_of_its_return(
    kind: FaultKind, number: int, random: float
) -> None:
    assert 0.1 < pause(kind, number, random=random) < 2


@given(kinds, setbacks, randoms, st.floats(0, 29.9))
def test_a_short_connection_is_never_redialled_immediately(
    kind: FaultKind, number: int, random: float, uptime_s: float
) -> None:
    assert pause(kind, number, random=random, uptime_s=uptime_s) > 0.1


@each_row("kind", [*ACCIDENTS, *MEANT])
def test_a_connection_of_half_a_minute_is_redialled_immediately(kind: FaultKind) -> None:
    assert pause(kind, 10, uptime_s=30.0) == 0.0


@each_row("kind", [FaultKind.UNREACHABLE, FaultKind.REFUSED])
def test_retry_after_of_the_backend_is_respected(kind: FaultKind) -> None:
    assert pause(kind, retry_after_s=7.0) == 7.0


def test_retry_after_of_the_backend_is_limited() -> None:
    assert pause(FaultKind.REFUSED, retry_after_s=1e9) == 300.0


@given(kinds, setbacks, randoms, st.floats(0, 1e300))
def test_retry_after_does_not_shorten_a_pause(
    kind: FaultKind, number: int, random: float, retry_after_s: float
) -> None:
    pause_s = pause(kind, number, random=random, retry_after_s=retry_after_s)
    assert pause_s >= pause(kind, number, random=random)
