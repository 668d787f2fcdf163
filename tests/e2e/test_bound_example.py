"""The page on bound arguments prints the example's output."""

from pathlib import Path

import pytest

from tests.support.printed_examples import ROOT, calls_of, check_answer, served_example

pytestmark = [pytest.mark.e2e]


def test_the_example_prints_the_documented_output(tmp_path: Path) -> None:
    calls = list(calls_of(ROOT / "docs/how-to/bind-arguments.md"))
    assert len(calls) == 2
    with served_example(tmp_path, "bound") as client:
        for call in calls:
            check_answer(client, call)
