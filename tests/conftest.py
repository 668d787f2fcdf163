"""Fixtures that several rooms' tests share."""

import signal
from pathlib import Path

import pytest

from mcp_tools_proxy.settings import Settings
from mcp_tools_proxy.settings_values import ENV_PREFIX
from retrieval_service.settings import RetrievalSettings


def pytest_configure() -> None:
    """Let every process that a test starts have the usual signals.

    What a shell starts in the background ignores SIGINT and SIGQUIT, and so does every child of
    it: two tests that interrupt the program failed after ``nohup make test &``.
    """
    for number in (signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(
                number,
                signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL,
            )


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, as the service does."""
    return "asyncio"


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the developer's own environment, .env and documents out of the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAG_WINDOW_RADIUS", raising=False)
    for prefix, model in ((ENV_PREFIX, Settings), ("RETRIEVAL_", RetrievalSettings)):
        for name in model.model_fields:
            monkeypatch.delenv(f"{prefix}{name.upper()}", raising=False)
