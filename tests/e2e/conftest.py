from pathlib import Path

import pytest

from tests.support.documents_cli import Run, documents_commands


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "documents"


@pytest.fixture
def run(root: Path) -> Run:
    return documents_commands(root)
