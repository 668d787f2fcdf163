"""Fixtures of the documents folder: where it is, what it fills, what watches it."""

from pathlib import Path

import pytest

from mcp_tools_proxy.documents.folder_sync import DocumentFolder
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.unit.documents.documents_folder import Shelf


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "documents"
    path.mkdir()
    return path


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def folder(root: Path, shelf: Shelf, metrics: Metrics) -> DocumentFolder:
    return DocumentFolder(root, shelf, metrics)
