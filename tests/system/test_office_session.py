"""The printed tutorial on a folder of documents works, including the scan."""

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import chdir
from itertools import count
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.support.bounds import BOUND_S
from tests.support.documents_cli import documents_commands
from tests.support.pages import blocks_of
from tests.support.printed_examples import (
    ROOT,
    calls_of,
    example_gateway,
    without_varying_parts,
)

pytestmark = [pytest.mark.usefixtures("tessdata")]

PAGE = ROOT / "docs/tutorials/office-documents.md"
CALLS = list(calls_of(PAGE))
BY_TESSERACT = re.compile(r'"version":"[^"]*"|"ocr":\d+')
"""Values that differ with other versions of Tesseract."""
TENANT_CALLS = re.compile(r'("tenant_calls","remaining_calls":)(\d+)')


@pytest.fixture(scope="module")
def printed_import() -> tuple[str, str]:
    text = "\n".join(text for _, text in blocks_of(PAGE))
    command, _, shown = text[text.index("documents import") :].partition("\n")
    return command, shown


@pytest.fixture(scope="module")
def imported(
    tmp_path_factory: pytest.TempPathFactory, printed_import: tuple[str, str]
) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("root")
    words = shlex.split(printed_import[0].partition(" ")[2])
    (pattern,) = [it for it in words if it.endswith("*")]
    files = [str(it) for it in sorted(ROOT.glob(pattern))]
    done = documents_commands(folder / "documents")(
        *[it for word in words for it in (files if word == pattern else [word])]
    )
    return folder, done.stdout


@pytest.fixture(scope="module")
def gateway(imported: tuple[Path, str]) -> Iterator[TestClient]:
    with chdir(imported[0]), example_gateway() as client:
        yield client


def wait_for_the_index(client: TestClient) -> int:
    """Return the number of calls until the index was ready."""
    body = next(call.body for call in CALLS if "search_documents" in call.body)
    ends = time.monotonic() + BOUND_S
    for calls in count(1):
        assert time.monotonic() < ends, "the index is never built"
        if "indexing" not in client.post("/internal/mcp/execute", content=body).json()["result"]:
            return calls
        time.sleep(0.05)
    raise AssertionError


def test_the_import_prints_the_documented_output(
    imported: tuple[Path, str], printed_import: tuple[str, str]
) -> None:
    names = [line.partition("->")[0] for line in imported[1].splitlines()]
    shown = [line.partition("->")[0] for line in printed_import[1].splitlines()]
    assert len(names) == 5
    assert names == shown[:5]


def test_the_page_has_three_calls() -> None:
    assert len(CALLS) == 3


def test_the_printed_calls_return_the_printed_answers(gateway: TestClient) -> None:
    waited = wait_for_the_index(gateway)
    for call in CALLS:
        found = gateway.post("/internal/mcp/execute", content=call.body).text
        shown = TENANT_CALLS.sub(lambda it: f"{it[1]}{int(it[2]) - waited}", call.answer)
        found, shown = (BY_TESSERACT.sub("", without_varying_parts(it)) for it in (found, shown))
        assert found == shown
