"""The examples that pages print calls of: served as a reader serves them, and compared."""

import json
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
from tests.support.bounds import BOUND_S
from tests.support.pages import blocks_of

ROOT = Path(__file__).parents[2]


def calls_of(page: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the body of each printed call, with the answer that is printed below it."""
    for (kind, text), (kind_below, below) in pairwise(blocks_of(page)):
        if (kind, kind_below) == ("console", "json") and text.startswith("$ curl"):
            words = shlex.split(text.removeprefix("$ "))
            yield words[words.index("-d") + 1], json.loads(below)


def link_root(folder: Path) -> None:
    """Link into a folder what commands need of the project's root: examples and programs."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / ".venv").symlink_to(sys.prefix)


@contextmanager
def example_gateway(**settings: Any) -> Iterator[TestClient]:
    """Serve from the working directory once each server was tried."""
    started = create_app(Settings(startup_wait_s=BOUND_S, **settings))
    with TestClient(started, "http://localhost") as client:
        while client.get("/health/ready").status_code == 503:
            time.sleep(0.05)
        yield client


@contextmanager
def served_example(folder: Path, name: str) -> Iterator[TestClient]:
    """Serve the configuration ``examples/<name>``, with ``folder`` for the project's root."""
    link_root(folder)
    with chdir(folder), example_gateway(config_dir=Path("examples") / name) as client:
        yield client


def check_answer(client: TestClient, body: str, answer: dict[str, Any]) -> None:
    """Check that a printed call has the printed answer, but for its trace id."""
    found = client.post("/internal/mcp/execute", content=body).json()
    shown = found if "budget" in answer else {k: v for k, v in found.items() if k != "budget"}
    assert shown | {"trace_id": ""} == answer | {"trace_id": ""}
