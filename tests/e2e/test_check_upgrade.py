"""``check --upgrade``: changes since the previous version that affect the configuration."""

import pytest

from tests.e2e.check_command import check

pytestmark = pytest.mark.e2e

TITLE = "Before you upgrade"
NOTHING = "No change in this version affects this configuration."


def test_the_first_version_has_no_changes() -> None:
    code, out, _ = check("--upgrade")
    assert (code, TITLE in out, out.splitlines().count(NOTHING)) == (0, False, 1)


def test_without_the_option_changes_are_not_mentioned() -> None:
    _, out, _ = check()
    assert (TITLE in out, NOTHING in out) == (False, False)
