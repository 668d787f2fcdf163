from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.interop.conformance_fixture import running_gateway
from tests.interop.conformance_suite import (
    VERSIONS,
    Outcome,
    expected_failures,
    run_suite,
    scenarios,
)
from tests.support.configuration import Json
from tests.support.mcp_servers.server_programs import conformance_entry

SCENARIOS = {version: scenarios(version) for version in VERSIONS}


@dataclass(frozen=True)
class Run:
    """A version supported by the suite, and the gateway's connection to the fixture.

    The modern version is not tested with a legacy server: most of its scenarios about input
    requests require keys and a state, which such a server does not send.
    """

    version: str
    behind: str

    def entry(self, fixture_url: str) -> Json:
        if self.behind == "legacy stdio":
            return conformance_entry(era="legacy")
        return {"transport": "streamable-http", "url": fixture_url}


RUNS = [
    Run("2025-11-25", "modern http"),
    Run("2025-11-25", "legacy stdio"),
    Run("2026-07-28", "modern http"),
]
CASES = [
    pytest.param(run, scenario, id=f"{run.version} before {run.behind}: {scenario}")
    for run in RUNS
    for scenario in SCENARIOS[run.version]
]
OutcomeOf = Callable[[Run], Outcome]


@pytest.fixture(scope="module")
def outcome_of(fixture_url: str, tmp_path_factory: pytest.TempPathFactory) -> OutcomeOf:
    """Run the suite once per run, each against a separate gateway."""
    known: dict[Run, Outcome] = {}

    def find(run: Run) -> Outcome:
        if run not in known:
            folder = tmp_path_factory.mktemp("gateway")
            with running_gateway(folder, run.entry(fixture_url)) as program:
                url = f"http://127.0.0.1:{program.port}/mcp"
                known[run] = run_suite(url, run.version, folder / "results")
        return known[run]

    return find


@pytest.mark.parametrize(("run", "scenario"), CASES)
def test_the_gateway_fails_only_the_expected_checks(
    outcome_of: OutcomeOf, run: Run, scenario: str
) -> None:
    failed = outcome_of(run).failed[scenario]
    expected = expected_failures(run.version).get(scenario, {})
    assert failed.keys() == expected.keys(), failed


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_every_scenario_is_run(outcome_of: OutcomeOf, run: Run) -> None:
    assert outcome_of(run).failed.keys() == set(SCENARIOS[run.version])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_expected_failure_belongs_to_a_scenario(version: str) -> None:
    assert expected_failures(version).keys() <= set(SCENARIOS[version])
