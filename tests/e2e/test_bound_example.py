"""The page on bound arguments prints the example's output."""

from pathlib import Path

import pytest

from tests.support.printed_examples import ROOT, calls_of, check_answer, served_example

pytestmark = [pytest.mark.e2e]


def test_the_example_prints_the_documented_output(tmp_path: Path) -> None:
    (call,) = calls_of(ROOT / "docs/how-to/bind-arguments.md")
    with served_example(tmp_path, "bound") as client:
        check_answer(client, call)
        other = call.body.replace('"agent"', '"arguments": {"query": "door"}, "agent"')
        refused = client.post("/internal/mcp/execute", content=other).json()
    assert refused["error"]["code"] == "INVALID_ARGUMENTS"
