"""The ``documents`` commands on the command line (contract §5, §8)."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from fpdf import FPDF

from mcp_tools_proxy.documents.document_file import document_path, read_document
from tests.support.bounds import BOUND_S
from tests.support.document_samples import sample
from tests.support.documents_cli import Run, documents_commands
from tests.support.office_files import DOCUMENT, document_xml, docx_of, text_xml
from tests.support.program import wait_until
from tests.support.program_launch import launch
from tests.support.raw_pdfs import raw_pdf
from tests.support.workbooks import sheet_of, xlsx_of


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.md"
    path.write_text("# A note\n\nText.\n", encoding="utf-8")
    return path


def pdf_with_text_on(numbers: set[int], *, pages: int) -> bytes:
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    for number in range(1, pages + 1):
        pdf.add_page()
        pdf.rect(10, 10, 100, 100)
        if number in numbers:
            pdf.cell(text=f"page {number}")
    return bytes(pdf.output())


@pytest.fixture
def book(tmp_path: Path) -> Path:
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    for page in range(3):
        pdf.add_page()
        pdf.start_section(f"Part {page}")
        pdf.cell(text=f"Part {page}")
    path = tmp_path / "book.pdf"
    path.write_bytes(bytes(pdf.output()))
    return path


def test_import_creates_one_document_per_file(run: Run, root: Path, note: Path, book: Path) -> None:
    result = run("import", note, book, "--tenant", "t", "--tag", "a", "--tag", "b")
    assert result.exit_code == 0
    assert read_document(root / "t" / "note.json").tags == ("a", "b")
    assert len(read_document(root / "t" / "book.json").sections) == 3


def test_pages_of_a_pdf_without_text_are_named_with_advice(
    run: Run, root: Path, tmp_path: Path
) -> None:
    scan = tmp_path / "a scan.pdf"
    scan.write_bytes(pdf_with_text_on({1, 5, 7}, pages=8))
    result = run("import", scan, "--tenant", "t")
    document = read_document(document_path(root, "t", "a scan"))
    assert (result.exit_code, len(document.pages)) == (0, 8)
    assert result.stderr.count("\n") == 1
    assert "pages 2-4, 6, 8 of 8 have no text" in result.stderr
    assert "--ocr-languages eng --replace" in result.stderr
    assert "mcp-tools-proxy[ocr]" in result.stderr


def test_a_pdf_without_any_text_is_refused_with_advice(
    run: Run, root: Path, tmp_path: Path
) -> None:
    scan = tmp_path / "scan.pdf"
    scan.write_bytes(pdf_with_text_on(set(), pages=2))
    result = run("import", scan, "--tenant", "t")
    assert (result.exit_code, root.exists()) == (1, False)
    assert "only scanned pages. For OCR, set MCP_PROXY_OCR_LANGUAGES, such as eng" in result.stderr


def test_a_text_file_with_an_empty_page_is_imported_silently(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("one\f\fthree")
    result = run("import", path, "--tenant", "t")
    assert (result.exit_code, result.stderr) == (0, "")


def test_import_prints_one_line_per_document(run: Run, root: Path, note: Path) -> None:
    result = run("import", note, "--tenant", "t")
    assert result.stdout == f"note  A note  1 page  1 section  -> {root / 't' / 'note.json'}\n"
    assert result.stderr == ""


def test_the_options_set_the_documents_fields(run: Run, root: Path, note: Path) -> None:
    run("import", note, "--tenant", "t", "--doc-id", "x/y", "--title", "Mine")
    document = read_document(root / "t" / "x%2Fy.json")
    assert (document.doc_id, document.title) == ("x/y", "Mine")


def test_another_folder_can_be_given(run: Run, tmp_path: Path, note: Path) -> None:
    run("import", note, "--tenant", "t", "--documents-path", tmp_path / "other")
    assert (tmp_path / "other" / "t" / "note.json").exists()


def test_one_invalid_file_is_named_and_the_others_are_imported(
    run: Run, root: Path, tmp_path: Path, note: Path
) -> None:
    result = run("import", tmp_path / "*.pdf", note, "--tenant", "t")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{tmp_path / '*.pdf'}: ")
    assert result.stderr.count("\n") == 1
    assert (root / "t" / "note.json").exists()


def test_the_content_decides_what_a_file_is(run: Run, root: Path, tmp_path: Path) -> None:
    table = "| name | days |\n| --- | --- |\n| Ann | 20 |"
    contents = {
        "sheet.txt": xlsx_of({"S": sheet_of([["name", "days"], ["Ann", 20]])}),
        "page.xls": b"<table><tr><th>name<th>days<tr><td>Ann<td>20</table>",
        "rows.xls": b"name\tdays\nAnn\t20\n",
        "letter.doc": rb"{\rtf1 Twenty days.}",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    paths = [str(tmp_path / name) for name in contents]
    assert run("import", *paths, "--tenant", "acme").exit_code == 0
    pages = {
        name: read_document(document_path(root, "acme", Path(name).stem)).pages for name in contents
    }
    assert pages == {
        "sheet.txt": (f"## S\n\n{table}\n",),
        "page.xls": (table,),
        "rows.xls": (table,),
        "letter.doc": ("Twenty days.",),
    }


def test_a_missing_file_is_reported(run: Run, tmp_path: Path) -> None:
    result = run("import", tmp_path / "none.md", "--tenant", "t")
    assert result.exit_code == 1
    assert result.stderr == f"{tmp_path / 'none.md'}: cannot be read: No such file or directory\n"


def test_an_existing_document_is_kept_without_replace(run: Run, root: Path, note: Path) -> None:
    run("import", note, "--tenant", "t")
    result = run("import", note, "--tenant", "t", "--title", "new")
    assert result.exit_code == 1
    assert "--replace" in result.stderr
    assert read_document(root / "t" / "note.json").title == "A note"


def test_replace_overwrites_the_document(run: Run, root: Path, note: Path) -> None:
    run("import", note, "--tenant", "t")
    result = run("import", note, "--tenant", "t", "--title", "new", "--replace")
    assert result.exit_code == 0
    assert read_document(root / "t" / "note.json").title == "new"


def test_files_of_the_same_name_do_not_overwrite_each_other(
    run: Run, root: Path, tmp_path: Path, note: Path
) -> None:
    twin = tmp_path / "note.txt"
    twin.write_text("twin", encoding="utf-8")
    result = run("import", note, twin, "--tenant", "t", "--replace")
    assert result.exit_code == 1
    assert read_document(root / "t" / "note.json").title == "A note"


@pytest.mark.parametrize("option", ["--doc-id", "--title"])
def test_a_name_for_several_files_is_a_usage_error(
    run: Run, root: Path, note: Path, book: Path, option: str
) -> None:
    result = run("import", note, book, "--tenant", "t", option, "x")
    assert result.exit_code == 2
    assert option in result.stderr
    assert not root.exists()


@pytest.mark.parametrize("arguments", [[], ["--tenant", ""], ["--tenant", "t", "--doc-id", "a\n"]])
def test_an_invalid_or_missing_name_is_a_usage_error(
    run: Run, note: Path, arguments: list[str]
) -> None:
    assert run("import", note, *arguments).exit_code == 2


def test_an_unwritable_folder_is_named(run: Run, root: Path, note: Path) -> None:
    root.write_text("a file in the way", encoding="utf-8")
    result = run("import", note, "--tenant", "t")
    assert result.exit_code == 1
    assert str(root) in result.stderr


def test_list_has_a_line_of_five_columns_per_document(run: Run, note: Path, book: Path) -> None:
    run("import", note, "--tenant", "t")
    run("import", book, "--tenant", "a")
    result = run("list")
    assert result.stdout == "a\tbook\tbook\t3\t3\nt\tnote\tA note\t1\t1\n"


def test_list_can_show_only_one_tenant(run: Run, note: Path, book: Path) -> None:
    run("import", note, "--tenant", "t")
    run("import", book, "--tenant", "a")
    assert run("list", "--tenant", "t").stdout == "t\tnote\tA note\t1\t1\n"


def test_list_names_invalid_files_separately(run: Run, root: Path) -> None:
    (root / "t").mkdir(parents=True)
    (root / "t" / "bad.json").write_text("{", encoding="utf-8")
    result = run("list")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.startswith("t/bad.json: ")


def test_list_of_a_missing_folder_is_empty(run: Run) -> None:
    result = run("list")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


@pytest.fixture
def renamed(run: Run, root: Path, note: Path) -> Path:
    """Return the file of the imported note, under a name that no import would choose."""
    run("import", note, "--tenant", "t")
    imported = document_path(root, "t", note.stem)
    return imported.rename(imported.with_name("renamed.json"))


def test_a_document_under_another_file_name_is_not_overwritten(
    run: Run, root: Path, note: Path, renamed: Path
) -> None:
    result = run("import", note, "--tenant", "t")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f'{note}: document "note" of tenant "t" exists: overwrite it with --replace, or choose '
        "another id with --doc-id\n"
    )
    assert (renamed.exists(), document_path(root, "t", "note").exists()) == (True, False)


def test_replace_removes_and_names_the_other_files_of_the_document(
    run: Run, root: Path, note: Path, renamed: Path
) -> None:
    copy = root / "note.json"
    copy.write_bytes(renamed.read_bytes())
    result = run("import", note, "--tenant", "t", "--title", "new", "--replace")
    kept = document_path(root, "t", "note")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"note  new  1 page  1 section  -> {kept}",
        f"note  removed  {copy}",
        f"note  removed  {renamed}",
    ]
    assert [read_document(path).title for path in root.glob("t/*.json")] == ["new"]
    assert run("list").stderr == ""


def test_replace_removes_no_other_document(run: Run, root: Path, note: Path, book: Path) -> None:
    run("import", note, book, "--tenant", "t")
    run("import", note, "--tenant", "other")
    assert "removed" not in run("import", note, "--tenant", "t", "--replace").output
    assert run("list").stdout.count("\n") == 3


def test_replace_overwrites_the_target_of_a_link_at_the_documents_path(
    run: Run, root: Path, note: Path, renamed: Path
) -> None:
    document_path(root, "t", "note").symlink_to(renamed)
    result = run("import", note, "--tenant", "t", "--title", "new", "--replace")
    assert (result.exit_code, read_document(renamed).title) == (0, "new")


def test_a_failed_import_removes_nothing(run: Run, note: Path, renamed: Path) -> None:
    note.write_text("")
    result = run("import", note, "--tenant", "t", "--replace")
    assert (result.exit_code, renamed.exists()) == (1, True)


def test_files_of_several_formats_are_imported_together(
    run: Run, root: Path, tmp_path: Path
) -> None:
    files = {
        "leave.docx": docx_of((1, "Leave"), "Twenty days."),
        "rail.html": b"<title>Rail rules</title><h1>Seats</h1><p>Book one.",
        "prices.csv": b"part,price\nbolt,3\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    result = run("import", *(tmp_path / name for name in files), "--tenant", "t")
    assert (result.exit_code, result.stderr) == (0, "")
    titles = [
        read_document(document_path(root, "t", name)).title for name in ("leave", "rail", "prices")
    ]
    assert titles == ["Leave", "Rail rules", "prices"]


def test_a_decompression_bomb_is_one_line_and_other_files_are_imported(
    run: Run, tmp_path: Path, note: Path
) -> None:
    bomb = tmp_path / "bomb.docx"
    laughs = '<!DOCTYPE w [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
    bomb.write_bytes(docx_of("x", parts={DOCUMENT: document_xml(text_xml("&b;"), prolog=laughs)}))
    result = run("import", bomb, note, "--tenant", "t")
    assert (result.exit_code, result.stdout.split()[0]) == (1, "note")
    assert result.stderr == (
        f"{bomb}: has an XML part with a document type or entities, which office programs never "
        "write: save it again in one\n"
    )


def test_text_in_another_encoding_is_imported_and_links_can_be_dropped(
    run: Run, root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "fees.md"
    path.write_bytes("Die [Gebühr](https://example.com) für Möbel.\n".encode("cp437"))
    named = ("--encoding", "cp437", "--no-link-targets")
    result = run("import", path, "--tenant", "t", *named)
    assert (result.exit_code, result.stderr) == (0, "")
    assert read_document(document_path(root, "t", "fees")).pages == ("Die Gebühr für Möbel.\n",)


def test_an_unknown_encoding_is_a_usage_error(run: Run, note: Path) -> None:
    result = run("import", note, "--tenant", "t", "--encoding", "base64")
    assert (result.exit_code, 'unknown encoding "base64"' in result.stderr) == (2, True)


@pytest.mark.parametrize("value", ["../eng", "eng deu", "e", "/etc/x"])
def test_languages_accept_only_names(run: Run, note: Path, value: str) -> None:
    result = run("import", note, "--tenant", "t", "--ocr-languages", value)
    assert (result.exit_code, "names such as eng, deu" in result.stderr) == (2, True)


def originals_in(root: Path) -> list[Path]:
    return sorted((root / ".originals").rglob("*.pdf"))


def test_an_import_stores_the_pdf_if_configured(root: Path, note: Path, book: Path) -> None:
    run = documents_commands(root, documents_keep_originals=True)
    assert run("import", note, book, "--tenant", "t").exit_code == 0
    assert [path.read_bytes() for path in originals_in(root)] == [book.read_bytes()]
    run("remove", "book", "--tenant", "t", "--yes")
    assert originals_in(root) == []


def test_an_import_stores_no_pdf_by_default(run: Run, root: Path, book: Path) -> None:
    assert run("import", book, "--tenant", "t").exit_code == 0
    assert originals_in(root) == []


def test_a_pdf_over_the_limit_is_imported_but_not_stored(root: Path, book: Path) -> None:
    run = documents_commands(root, documents_keep_originals=True, max_document_bytes=100)
    result = run("import", book, "--tenant", "t")
    assert (result.exit_code, originals_in(root)) == (0, [])
    assert "book.pdf: is over 100 bytes, so the PDF is not kept" in result.stderr


def test_a_pipe_is_refused_with_one_line(run: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "note.md"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDWR)
    result = run("import", pipe, "--tenant", "t")
    os.close(descriptor)
    assert (result.exit_code, result.stderr) == (
        1,
        f"{pipe}: is a pipe, not a file: write it to a file first\n",
    )


def test_notes_of_reviewers_can_be_left_out(run: Run, root: Path, tmp_path: Path) -> None:
    budget = tmp_path / "budget.pdf"
    budget.write_bytes(sample("25-freetext-annotation.pdf"))
    assert run("import", budget, "--tenant", "t", "--no-notes").exit_code == 0
    assert "Ask Eva" not in read_document(root / "t" / "budget.json").pages[0]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_an_import_and_leaves_no_file(tmp_path: Path, sent: signal.Signals) -> None:
    scratch, slow = tmp_path / "scratch", tmp_path / "slow.pdf"
    scratch.mkdir()
    slow.write_bytes(raw_pdf("BT /F1 9 Tf 50 700 Td (slow) Tj ET\n" * 300_000))
    process = launch(
        ["documents", "import", str(slow), "--tenant", "t"],
        tmp_path,
        {"TMPDIR": str(scratch)},
        streams=(None, subprocess.DEVNULL, subprocess.DEVNULL),
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        wait_until(lambda: bool(children.read_text()))
        process.send_signal(sent)
        assert process.wait(BOUND_S) == (-sent if sent == signal.SIGKILL else 128 + sent)
    finally:
        process.kill()
    assert list(scratch.iterdir()) == []
