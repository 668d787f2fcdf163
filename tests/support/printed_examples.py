import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from fastapi.testclient import TestClient

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
from tests.support.bounds import BOUND_S
from tests.support.pages import blocks_of

ROOT = Path(__file__).parents[2]

_VARYING = (
    (re.compile(r'((?:"trace_id"|/traceId"): ?)"[0-9a-f]{32}"'), r'\1"ID"'),
    (re.compile(r'("server_identifier":)"[^"]*"'), r'\1"ID"'),
    (re.compile(r'("(?:reset_s|score)": ?)[\d.]+'), r"\1N"),
    (re.compile(r'("(?:updated|since)":)"[\d:.TZ-]+"'), r'\1"TIME"'),
    (re.compile(r"(//127\.0\.0\.1:)\d+"), r"\1PORT"),
)
"""Ids, times, ports and scores, which vary; the rest of an answer is compared."""


class PrintedCall(NamedTuple):
    """A printed call with the answer below it."""

    port: int
    body: str
    answer: str


def calls_of(page: Path) -> Iterator[PrintedCall]:
    """Yield the printed calls that have a printed answer."""
    for (kind, text), (kind_below, below) in pairwise(blocks_of(page)):
        if (kind, kind_below) == ("console", "json") and text.startswith("$ curl"):
            words = shlex.split(text.removeprefix("$ "))
            (port,) = re.findall(r"localhost:(\d+)/", text)
            yield PrintedCall(int(port), words[words.index("-d") + 1], below.strip())


def link_root(folder: Path) -> None:
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / ".venv").symlink_to(sys.prefix)


@contextmanager
def example_gateway(**settings: Any) -> Iterator[TestClient]:
    """Serve from the working directory after each server was tried."""
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


def without_varying_parts(text: str) -> str:
    for pattern, placeholder in _VARYING:
        text = pattern.sub(placeholder, text)
    return text


def check_answer(client: TestClient, call: PrintedCall) -> None:
    """Check that the answer to a printed call is the printed one, except for varying parts."""
    found = client.post("/internal/mcp/execute", content=call.body).text
    assert without_varying_parts(found) == without_varying_parts(call.answer)
