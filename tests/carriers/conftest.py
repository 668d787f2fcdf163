"""A test that takes ``carrier`` runs over each; a module's fixtures may be shared for each."""

import pytest

from tests.carriers.gateway import CARRIERS, Carrier, params_of


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run a module's tests and its fixtures in one event loop."""
    return "asyncio"


@pytest.fixture(scope="module", params=params_of(CARRIERS))
def carrier(request: pytest.FixtureRequest) -> Carrier:
    """Run a test over each of the carriers, in each era."""
    found: Carrier = request.param
    return found
