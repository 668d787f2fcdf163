"""Scans read by Tesseract with Debian's data, in the importing process."""

import re
import shlex
from collections.abc import Sequence
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Literal

import pytest
from pypdfium2 import PdfDocument

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.import_process import Importer
from mcp_tools_proxy.domain.document import Document
from tests.support.documents_cli import documents_commands
from tests.support.pages import blocks_of
from tests.support.scans import scan_of, scan_of_table
from tests.support.source_files import ROOT

pytestmark = pytest.mark.usefixtures("tessdata")

RULES = ["Travel by train is paid in second class.", "Book a seat two weeks before."]
LEAVE = ["Employees have twenty days of leave."]


async def imported(
    pdf: bytes, folder: Path, *, languages: Sequence[str] = ("eng",), timeout_s: float = 300.0
) -> Document:
    path = folder / "scan.pdf"
    path.write_bytes(pdf)
    options = ImportOptions(
        tenant_id="acme", doc_id="scan", stem="scan", ocr_languages=tuple(languages)
    )
    with path.open("rb") as source:
        importer = Importer(timeout_s=timeout_s, ocr_timeout_s=timeout_s)
        async with importer.imported(source, ".pdf", options) as found:
            return found.document()


async def test_the_pages_of_a_scan_have_their_text_and_its_confidence(tmp_path: Path) -> None:
    document = await imported(scan_of(RULES, LEAVE, texts=["A page of text."]), tmp_path)
    assert [page.split() for page in document.pages] == [
        " ".join(RULES).split(),
        " ".join(LEAVE).split(),
        ["A", "page", "of", "text."],
    ]
    first, second, third = document.ocr
    assert third is None
    assert first is not None
    assert second is not None
    assert min(first, second) > 80


async def test_a_stamp_next_to_a_picture_does_not_prevent_ocr(tmp_path: Path) -> None:
    document = await imported(scan_of(RULES, stamp="Received 2026"), tmp_path)
    assert "Travel by train" in document.pages[0]


async def test_a_rotated_page_is_read(tmp_path: Path) -> None:
    document = await imported(scan_of(RULES * 3, turned=90), tmp_path)
    assert "Book a seat two weeks before." in document.pages[0]


@pytest.mark.parametrize("border", [0, 1])
async def test_a_table_keeps_its_empty_cells(tmp_path: Path, border: Literal[0, 1]) -> None:
    rows = [
        ["Plan", "Q1", "Q2", "Q3"],
        ["North", "10", "", "30"],
        ["South", "22", "15", ""],
        ["West", "5", "", "7"],
        ["Total", "37", "15", "37"],
    ]
    document = await imported(scan_of_table(rows, border=border), tmp_path)
    assert document.pages[0].splitlines() == [
        "| Plan | Q1 | Q2 | Q3 |",
        "| --- | --- | --- | --- |",
        "| North | 10 |  | 30 |",
        "| South | 22 | 15 |  |",
        "| West | 5 |  | 7 |",
        "| Total | 37 | 15 | 37 |",
    ]


async def test_each_frame_of_a_picture_is_a_page(tmp_path: Path) -> None:
    with closing(PdfDocument(scan_of(RULES, LEAVE))) as pdf:
        first, second = (page.render(scale=2).to_pil() for page in pdf)
    file = BytesIO()
    first.save(file, "TIFF", save_all=True, append_images=[second])
    document = await imported(file.getvalue(), tmp_path)
    assert RULES[0] in document.pages[0]
    assert document.pages[1].strip() == LEAVE[0]
    assert min(confidence or 0 for confidence in document.ocr) > 80


async def test_several_languages_are_read_together(tmp_path: Path) -> None:
    document = await imported(
        scan_of(["Über Größe und Straße"], LEAVE), tmp_path, languages=("deu", "eng")
    )
    assert "Über Größe und Straße" in document.pages[0]
    assert "twenty days" in document.pages[1]


async def test_a_picture_without_text_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="OCR found none on its pages"):
        await imported(scan_of([]), tmp_path)


async def test_a_language_that_is_not_installed_names_its_package(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="install Debian's tesseract-ocr-tlh-latn"):
        await imported(scan_of(RULES), tmp_path, languages=("eng", "tlh_Latn"))


async def test_a_missing_language_does_not_affect_text(tmp_path: Path) -> None:
    document = await imported(scan_of(texts=["Text."]), tmp_path, languages=("tlh",))
    assert (document.pages, document.ocr) == (("Text.",), ())


async def test_a_page_of_many_square_metres_is_read_within_the_limits(tmp_path: Path) -> None:
    small = scan_of(RULES)
    large = small.replace(b"/MediaBox", b"/UserUnit 10 /MediaBox")
    assert large != small
    document = await imported(large, tmp_path)
    assert "Travel by train" in document.pages[0]


async def test_an_import_that_takes_too_long_ends_and_names_the_setting(tmp_path: Path) -> None:
    pdf = scan_of(*[RULES * 4] * 20)
    with pytest.raises(ImportFailed) as failed:
        await imported(pdf, tmp_path, timeout_s=1.0)
    assert "MCP_PROXY_OCR_TIMEOUT_S" in failed.value.reason


def test_the_command_reads_a_scan_and_shows_the_result(tmp_path: Path) -> None:
    scan = tmp_path / "rules.pdf"
    scan.write_bytes(scan_of(RULES, texts=["More."]))
    run = documents_commands(tmp_path / "documents")
    done = run("import", scan, "--tenant", "acme", "--ocr-languages", "eng")
    assert (done.exit_code, done.stderr) == (0, "")
    shown = run("show", "rules", "--tenant", "acme").stdout
    assert "ocr       page 1, confidence " in shown


def test_the_setting_replaces_the_option(tmp_path: Path) -> None:
    scan = tmp_path / "rules.pdf"
    scan.write_bytes(scan_of(RULES))
    run = documents_commands(tmp_path / "documents", ocr_languages="eng")
    assert run("import", scan, "--tenant", "acme").exit_code == 0
    off = run("import", scan, "--tenant", "acme", "--replace", "--ocr-languages", "")
    assert (off.exit_code, "only scanned pages" in off.stderr) == (1, True)


def test_the_page_on_scans_shows_the_actual_output(tmp_path: Path) -> None:
    run = documents_commands(tmp_path / "documents")
    text = "\n".join(text for _, text in blocks_of(ROOT / "docs/how-to/scans.md"))
    command, shown = re.findall(r"documents (import .*)\n(.*)", text)[0]
    done = run(*(it.replace("examples/", f"{ROOT}/examples/") for it in shlex.split(command)))
    assert done.stdout.partition("->")[0] == shown.partition("->")[0]
    (line,) = re.findall(r"^ocr .*", text, re.MULTILINE)
    assert line.partition(",")[0] in run("show", "travel", "--tenant", "acme").stdout
