"""A test fails if its program is missing: a skipped test would go unnoticed."""

import pytest

from tests.system.programs import installed


def test_a_missing_program_fails_the_test_with_the_install_command() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"no-such-program .* run \.ci/setup"):
        installed("no-such-program")
