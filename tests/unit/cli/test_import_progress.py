import pytest

from mcp_tools_proxy.cli.documents.document_import import LINE_S, page_progress, progress_lines


def test_without_a_terminal_a_long_import_prints_occasional_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    show = progress_lines("1/2 scan.pdf", lambda: now)
    for page in range(1, 11):
        now += LINE_S / 3 + 0.1
        show(page, 10)
    assert capsys.readouterr().err.splitlines() == [
        "1/2 scan.pdf: page 3 of 10",
        "1/2 scan.pdf: page 6 of 10",
        "1/2 scan.pdf: page 9 of 10",
    ]


def test_a_quick_import_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with page_progress("scan.pdf") as show:
        show(1, 2)
        show(2, 2)
    assert capsys.readouterr() == ("", "")
