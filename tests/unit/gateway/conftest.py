from pathlib import Path

import pytest

from tests.unit.gateway.reloader_fixture import write_preset, write_servers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two servers, and the presets ``work`` (alpha, the default) and ``play`` (beta)."""
    write_servers(tmp_path, "alpha", "beta", default="work")
    write_preset(tmp_path, "work", "alpha/search")
    write_preset(tmp_path, "play", "beta/translate")
    return tmp_path
