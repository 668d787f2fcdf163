"""The tutorial on a folder of documents runs as it is printed, the scan included."""

import json
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.bounds import BOUND_S
from tests.support.documents_cli import documents_commands
from tests.support.pages import blocks_of
from tests.support.printed_examples import ROOT, calls_of, example_gateway

pytestmark = [pytest.mark.usefixtures("tessdata")]

PAGE = ROOT / "docs/tutorials/office-documents.md"
CALLS = list(calls_of(PAGE))
VARYING = re.compile(r'"(version|updated|trace_id)": "[^"]*"|"ocr": \d+')
"""What a version of Tesseract or the time may change."""


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
        _wait_for_the_index(client)
        yield client


def _wait_for_the_index(client: TestClient) -> None:
    body = next(body for body, _ in CALLS if "search_documents" in body)
    ends = time.monotonic() + BOUND_S
    while "indexing" in _result(client, body)["result"]:
        assert time.monotonic() < ends, "the index is never built"
        time.sleep(0.05)


def _result(client: TestClient, body: str) -> dict[str, Any]:
    found: dict[str, Any] = client.post("/internal/mcp/execute", content=body).json()
    return {key: value for key, value in found.items() if key != "budget"}


def test_the_import_prints_what_is_shown(
    imported: tuple[Path, str], printed_import: tuple[str, str]
) -> None:
    names = [line.partition("->")[0].split() for line in imported[1].splitlines()]
    shown = [line.partition("->")[0].split() for line in printed_import[1].splitlines()]
    assert len(names) == 5
    assert names == shown[:5]


def test_the_page_prints_five_calls() -> None:
    assert len(CALLS) == 5


@pytest.mark.parametrize(("body", "answer"), CALLS)
def test_a_printed_call_has_the_printed_answer(
    gateway: TestClient, body: str, answer: dict[str, Any]
) -> None:
    found = _result(gateway, body)
    assert VARYING.sub("", json.dumps(found)) == VARYING.sub("", json.dumps(answer))
