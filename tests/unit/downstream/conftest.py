"""Session tests use virtual time."""

from collections.abc import Mapping

import pytest

from tests.support.virtual_time import BACKEND


@pytest.fixture
def anyio_backend() -> tuple[str, Mapping[str, object]]:
    return BACKEND
