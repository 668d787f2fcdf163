from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.folder.folder_cache import ScanCache
from mcp_tools_proxy.documents.folder.folder_store import (
    FolderReport,
    FolderStore,
    log_cache_failure,
)
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.unit.documents.documents_folder import ServedTitles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "documents"
    path.mkdir()
    return path


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def folder(root: Path, cache_dir: Path, metrics: Metrics) -> Iterator[FolderStore]:
    store = FolderStore(root, ScanCache(cache_dir, root, log_cache_failure), FolderReport(metrics))
    yield store
    store.close()


@pytest.fixture
def served(folder: FolderStore) -> ServedTitles:
    return ServedTitles(folder)
