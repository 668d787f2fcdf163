"""The public conformance suite run against the gateway as a client of the suite's servers."""

import sys
from collections.abc import Callable

import pytest

from tests.interop.conformance_suite import (
    VERSIONS,
    ClientScenarios,
    Outcome,
    client_scenarios,
    expected_failures,
    run_client_suite,
)
from tests.interop.conformance_tasks import Tasks, performing

SCENARIOS: dict[str, ClientScenarios] = {version: client_scenarios(version) for version in VERSIONS}
CASES = [
    pytest.param(version, scenario, id=f"{version}: {scenario}")
    for version in VERSIONS
    for scenario in SCENARIOS[version].scored
]
REFUSED = {
    "auth/iss-normalized",
    "auth/iss-supported-missing",
    "auth/iss-unexpected",
    "auth/iss-wrong-issuer",
    "auth/metadata-issuer-mismatch",
    "auth/resource-mismatch",
    "auth/scope-retry-limit",
    "json-schema-ref-no-deref",
}
"""Scenarios whose server, issuer or tool must not be used."""

RunOf = Callable[[str], tuple[Outcome, Tasks]]


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> RunOf:
    """Run the suite of each version once."""
    known: dict[str, tuple[Outcome, Tasks]] = {}

    def find(version: str) -> tuple[Outcome, Tasks]:
        if version not in known:
            folder = tmp_path_factory.mktemp("clients")
            with performing(folder) as tasks:
                results = tmp_path_factory.mktemp("results")
                known[version] = run_client_suite(tasks.command, version, results), tasks
        return known[version]

    return find


@pytest.mark.parametrize(("version", "scenario"), CASES)
def test_the_gateway_fails_only_the_expected_checks(
    run_of: RunOf, version: str, scenario: str
) -> None:
    outcome, tasks = run_of(version)
    failed = outcome.failed[scenario]
    expected = expected_failures(version, "client").get(scenario, {})
    assert failed.keys() == expected.keys(), (failed, tasks.steps[scenario])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_scenario_is_run(
    run_of: RunOf, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome, tasks = run_of(version)
    scenarios = SCENARIOS[version]
    assert outcome.failed.keys() == {*scenarios.scored, *scenarios.reported}
    assert tasks.broken == {}
    with capsys.disabled():
        for scenario in scenarios.reported:
            failed = ", ".join(outcome.failed[scenario]) or "nothing"
            sys.stdout.write(f"\n{version}, not scored: {scenario} fails {failed}")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_is_usable_in_the_end_unless_forbidden(run_of: RunOf, version: str) -> None:
    _, tasks = run_of(version)
    scored = set(SCENARIOS[version].scored)
    assert scored - tasks.succeeded == scored & REFUSED


@pytest.mark.parametrize("version", VERSIONS)
def test_every_expected_failure_belongs_to_a_scored_scenario(version: str) -> None:
    assert expected_failures(version, "client").keys() <= set(SCENARIOS[version].scored)
