"""The rules in deploy/prometheus and the causes of their alerts, checked by promtool."""

import subprocess
from pathlib import Path

from tests.support.bounds import BOUND_S
from tests.support.source_files import ROOT

FOLDER = ROOT / "deploy/prometheus"
WRONG = "groups: [{name: g, rules: [{alert: A, expr: 'sum('}]}]"


def run(*words: str) -> tuple[int, str]:
    """Run a program in the folder of the rules; return its exit code and output."""
    done = subprocess.run(  # noqa: S603 - the tests' own words
        words, cwd=FOLDER, timeout=BOUND_S, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_prometheus_can_load_the_rules(promtool: str) -> None:
    code, printed = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")
    assert code == 0, printed


def test_prometheus_refuses_an_invalid_rule(promtool: str, tmp_path: Path) -> None:
    """The other tests rely on the exit code."""
    (tmp_path / "wrong.yaml").write_text(WRONG)
    code, printed = run(promtool, "check", "rules", str(tmp_path / "wrong.yaml"))
    assert (code == 0, "could not parse expression" in printed) == (False, True)


def test_each_alert_fires_only_for_its_cause(promtool: str) -> None:
    code, printed = run(promtool, "test", "rules", "tests.yaml")
    assert code == 0, printed
