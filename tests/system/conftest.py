"""Programs from Debian packages; a test fails if its program is missing."""

from pathlib import Path

import pytest

from mcp_tools_proxy.documents.importers.ocr import DATA_FOLDERS
from tests.system.programs import installed


@pytest.fixture(scope="session")
def promtool() -> str:
    return installed("promtool")


@pytest.fixture(scope="session")
def tessdata() -> None:
    """Check that Tesseract has the language data of the tests."""
    if not all(any(Path(it, name).exists() for it in DATA_FOLDERS) for name in _TESSDATA):
        pytest.fail(f"{', '.join(_TESSDATA)} are missing; run .ci/setup, which installs them")


_TESSDATA = ("eng.traineddata", "deu.traineddata", "osd.traineddata")
