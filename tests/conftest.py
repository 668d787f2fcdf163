"""Fixtures that several rooms' tests share."""

from pathlib import Path

import pytest

from mcp_tools_proxy.settings import ENV_PREFIX, Settings


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, as the service does."""
    return "asyncio"


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the developer's own environment, .env and documents out of the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAG_WINDOW_RADIUS", raising=False)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"{ENV_PREFIX}{name.upper()}", raising=False)
