"""Advice on the warnings of imports."""

from mcp_tools_proxy.documents.importers.base import WarningCode, warning
from mcp_tools_proxy.documents.importers.warning_advice import ImportEntry, advice_on
from mcp_tools_proxy.domain.document import ImportWarning


def test_every_warning_has_advice_that_fits_each_entry() -> None:
    for code in WarningCode:
        for path in (None, "a/b.csv"):
            advice = {entry: advice_on(warning(code, "x"), entry, path) for entry in ImportEntry}
            assert all(advice.values()), code
            remote = f"{advice[ImportEntry.HTTP]} {advice[ImportEntry.CONSOLE]}"
            assert "--" not in remote


def test_a_warning_of_a_later_release_has_no_advice() -> None:
    assert advice_on(ImportWarning("later", "x"), ImportEntry.CLI, None) is None
