from mcp_tools_proxy.documents.embeddings.meaning_search import Circuit
from mcp_tools_proxy.system.backoff import Backoff


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def made() -> tuple[Circuit, Clock]:
    clock = Clock()
    pauses = Backoff(first_s=1.0, longest_s=4.0, least_share=1.0)
    return Circuit(pauses=pauses, clock=clock), clock


def fail(circuit: Circuit) -> None:
    assert circuit.enter()
    circuit.leave(has_failed=True)


def test_a_working_service_can_be_called_concurrently() -> None:
    circuit, _ = made()
    assert circuit.enter()
    assert circuit.enter()


def test_after_a_failure_and_a_pause_one_caller_is_let_through() -> None:
    circuit, clock = made()
    fail(circuit)
    assert not circuit.enter()
    clock.now = 1.0
    assert circuit.enter()
    assert not circuit.enter()
    circuit.leave(has_failed=False)
    assert circuit.enter()
    assert circuit.enter()


def test_pauses_grow_up_to_the_maximum() -> None:
    circuit, clock = made()
    for pause in (1.0, 2.0, 4.0, 4.0):
        fail(circuit)
        clock.now += pause - 0.01
        assert not circuit.enter()
        clock.now += 0.01


def test_concurrent_failures_count_as_one() -> None:
    circuit, clock = made()
    assert all(circuit.enter() for _ in range(9))
    for _ in range(9):
        circuit.leave(has_failed=True)
    clock.now = 1.0
    assert circuit.enter()


def test_a_cancelled_trial_allows_another_trial() -> None:
    circuit, clock = made()
    fail(circuit)
    clock.now = 1.0
    assert circuit.enter()
    circuit.leave(has_failed=None)
    assert circuit.enter()
