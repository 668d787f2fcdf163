"""Fixtures that several rooms' tests share."""

from pathlib import Path

import pytest

from mcp_tools_proxy.settings import Settings
from mcp_tools_proxy.settings_values import ENV_PREFIX
from retrieval_service.settings import RetrievalSettings


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
