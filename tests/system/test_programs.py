"""A test that needs a program fails where it is missing: skipped, it would prove nothing unseen."""

import pytest

from tests.system.programs import installed


def test_a_missing_program_fails_the_test_and_names_the_command() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"no-such-program .* run \.ci/setup"):
        installed("no-such-program")
