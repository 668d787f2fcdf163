"""The content decides what a file is; the suffix decides only among kinds of text."""

import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportFailed
from mcp_tools_proxy.documents.importers.file_kind import FileKind, kind_of, kind_of_start
from tests.support.office_files import docx_of, zip_of
from tests.support.ole_files import ole_of
from tests.support.tables import each_row

OPEN = b"application/vnd.oasis.opendocument."
CONTENT_TYPES = "[Content_Types].xml"
MAIL = b"Received: by mx\n\twith SMTP\nFrom: ann@example.org\nSubject: Leave\n\nHello\n"
MEMO = b"From: Ann\nTo: Bob\nSubject: Leave\n\nHello\n"


def main_part(media_type: str) -> bytes:
    return f'<Types><Override PartName="/m.xml" ContentType="{media_type}+xml"/></Types>'.encode()


@each_row(
    ("content", "suffix", "kind"),
    [
        (b"%PDF-1.7\n", ".txt", FileKind.PDF),
        (b"\xef\xbb\xbf%PDF-1.7\n", ".docx", FileKind.PDF),
        (b"printed by x\n%PDF-1.7\n", ".pdf", FileKind.PDF),
        (docx_of("text"), ".txt", FileKind.DOCX),
        (docx_of("text"), "", FileKind.DOCX),
        (
            zip_of(
                {
                    CONTENT_TYPES: main_part("application/vnd.ms-word.template.macroEnabled.main"),
                    "m.xml": b"",
                }
            ),
            ".doc",
            FileKind.DOCX,
        ),
        (
            zip_of(
                {
                    CONTENT_TYPES: main_part("application/vnd.ms-excel.sheet.macroEnabled.main"),
                    "m.xml": b"",
                }
            ),
            ".zip",
            FileKind.XLSX,
        ),
        (zip_of({CONTENT_TYPES: b"", "ppt/presentation.xml": b""}), ".zip", FileKind.PPTX),
        (zip_of({"mimetype": OPEN + b"text"}), ".docx", FileKind.ODT),
        (zip_of({"mimetype": OPEN + b"spreadsheet"}), ".xlsx", FileKind.ODS),
        (zip_of({"mimetype": b"application/epub+zip"}), ".zip", FileKind.EPUB),
        (ole_of({"Workbook": b""}), ".doc", FileKind.XLS),
        (ole_of({"__properties_version1.0": b""}), "", FileKind.MSG),
        (b"{\\rtf1 text}", ".doc", FileKind.RTF),
        (b"\x89PNG\r\n\x1a\n", ".jpg", FileKind.PICTURE),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", ".png", FileKind.PICTURE),
        (b"\n<!-- saved -->\n<!DOCTYPE html>", ".doc", FileKind.HTML),
        (b'<?xml version="1.0"?><html xmlns="x">', ".txt", FileKind.HTML),
        ("<html>".encode("utf-16"), ".xls", FileKind.HTML),
        (b"<table><tr><td>1", ".xls", FileKind.HTML),
        (b"a\tb\n1\t2\n", ".xls", FileKind.CSV),
        (b"a\tb\n1\t2\n", ".tsv", FileKind.CSV),
        (MAIL, ".txt", FileKind.EML),
        (MAIL, "", FileKind.EML),
        (MEMO, ".txt", FileKind.TEXT),
        (MEMO, ".eml", FileKind.EML),
        (b'{"a": 1}', "", FileKind.JSON),
        (b'{"a": 1}\n{"a": 2}\n', ".log", FileKind.JSON_LINES),
        (b'{"a": 1}', ".txt", FileKind.TEXT),
        (b"[see below]", "", FileKind.TEXT),
        (b"name;days\nAnn;20\nEva;30\n", "", FileKind.CSV),
        (b"name,days,place\r\nAnn,20,Lodz\r\n", ".dat", FileKind.CSV),
        ("Größe\tn\nx\t1\n".encode("utf-16"), "", FileKind.CSV),
        (b"sep=;\nname;note\nx;1, 2\n", "", FileKind.CSV),
        ("имя;дни\nАня;1\nЕва;2\n".encode("cp1251"), "", FileKind.CSV),
        (b"name|days\nAnn|20\n" * 40_000, "", FileKind.CSV),
        (b"1,5\n2,5\n3,5\n", "", FileKind.TEXT),
        (b"Dear Ann, good day\nThe fee is five, not six\nYours, Eva\n", "", FileKind.TEXT),
        (b"Lodz, Poland\nParis, France\nRome, Italy\n", "", FileKind.TEXT),
        (b"a,b\n", "", FileKind.TEXT),
        (b"---\ntitle: Leave\ntags: [hr]\n---\nTwenty days.\n", "", FileKind.MARKDOWN),
        (b"# Leave\n\nEmployees get twenty days.\n", "", FileKind.MARKDOWN),
        (b"| a | b |\n| --- | --- |\n| 1 | 2 |\n", "", FileKind.MARKDOWN),
        (b"See **the rules** in [the list](https://example.com/).\n", "", FileKind.MARKDOWN),
        (b"# Settings of the service.\n\nport = 80\n\n# Names\n\nname = x\n", "", FileKind.TEXT),
        (b"# Made by hand\n# for tests.\n\nThis line is a sentence.\n", "", FileKind.TEXT),
        (b"2 ** 3 ** 4 is [large](see below)\n", "", FileKind.TEXT),
        (b"# Title", ".markdown", FileKind.MARKDOWN),
        (b"BM me up, please, today", ".txt", FileKind.TEXT),
        ("слово\n".encode("utf-16-le"), ".txt", FileKind.TEXT),
        ("每人最多可以借三本书。\n逾期归还罚款。\n".encode("utf-16-le"), ".txt", FileKind.TEXT),
        ("一人三冊まで。\n".encode("utf-16-be"), "", FileKind.TEXT),
        ("Āa".encode("utf-16"), ".txt", FileKind.TEXT),
        ("text".encode("utf-32-be"), ".txt", FileKind.TEXT),
    ],
)
def test_the_content_decides_what_a_file_is(content: bytes, suffix: str, kind: FileKind) -> None:
    assert kind_of(content, suffix) is kind


@each_row(
    ("content", "suffix", "advice"),
    [
        (b"", ".pdf", "is empty"),
        (b"\xff\xfe \x00", ".txt", "is empty"),
        (ole_of({"WordDocument": b""}), ".docx", "save it as .docx"),
        (ole_of({"PowerPoint Document": b""}), ".ppt", "save it as .pptx"),
        (ole_of({"EncryptedPackage": b"", "EncryptionInfo": b""}), ".xlsx", "has a password"),
        (ole_of({"Other": b""}), ".docx", "export it as PDF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", ".docx", "is a damaged Office file"),
        (zip_of({"Index/Document.iwa": b""}), ".docx", "Apple Pages"),
        (zip_of({"a.txt": b"x"}), ".docx", "unpack it"),
        (zip_of({"mimetype": OPEN + b"presentation"}), ".odt", "export it as PPTX or PDF"),
        (
            zip_of({"mimetype": OPEN + b"text", "META-INF/manifest.xml": b"<m:encryption-data/>"}),
            ".odt",
            "has a password",
        ),
        (docx_of("text")[:200], ".docx", "was cut short"),
        (b"\x1f\x8b\x08", ".docx", "unpack it"),
        (b"MZ\x90\x00\x03", ".docx", "is a program"),
        (b"\x7fELF\x02", ".txt", "is a program"),
        (b"\x00\x00\x00\x18ftypmp42", ".txt", "import its transcript"),
        (b"\x00\x00\x00\x18ftypheic", ".jpg", "save it as JPEG"),
        (
            b"<?xml version='1.0'?><?mso-application progid='Excel.Sheet'?>",
            ".xls",
            "save it as DOCX, XLSX",
        ),
        (b"Not found", ".pdf", "is text, not a .pdf file"),
        (bytes(range(256)) * 9, ".txt", "is neither text nor"),
        (bytes(range(1, 256)) * 9, "", "is neither text nor"),
    ],
)
def test_a_refusal_says_what_to_do(content: bytes, suffix: str, advice: str) -> None:
    with pytest.raises(ImportFailed) as refused:
        kind_of(content, suffix)
    assert advice in refused.value.reason


@given(st.text(alphabet=",;\t|#-*`[]() ab\n", max_size=400))
def test_any_text_has_a_kind(text: str) -> None:
    data = b"x" + text.encode()
    assert kind_of(data, "") in {FileKind.TEXT, FileKind.CSV, FileKind.MARKDOWN}


@each_row(
    "text",
    [
        "---\n" + "a:\n" * 20_000,
        "```\n" * 20_000,
        "# a\n\n" * 20_000,
        "|-" * 40_000,
        "[" * 60_000,
        "a " * 30_000,
    ],
)
def test_the_form_of_a_text_is_found_in_linear_time(text: str) -> None:
    started = time.process_time()
    kind_of(b"x\n" + text.encode(), "")
    kind_of(text.encode(), "")
    assert time.process_time() - started < 5


def test_a_spreadsheet_with_another_name_is_a_spreadsheet() -> None:
    content = (Path(__file__).parent / "files" / "merged.xls").read_bytes()
    assert kind_of(content, ".csv") is FileKind.XLS


SAMPLES = [
    *sorted((Path(__file__).parent / "files").iterdir()),
    *sorted((Path(__file__).parents[2] / "data" / "documents").iterdir()),
]


def outcome_of(kind: Callable[[], FileKind | None]) -> FileKind | str | None:
    try:
        return kind()
    except ImportFailed as failure:
        return f"refused: {failure.reason}"


@each_row("content", [it.read_bytes() for it in SAMPLES if it.is_file()])
def test_the_start_of_a_file_tells_its_kind(content: bytes) -> None:
    whole = outcome_of(lambda: kind_of(content, ""))
    start = outcome_of(lambda: kind_of_start(BytesIO(content)))
    assert start == whole or start is None or {start, whole} <= {*FileKind}


@each_row(
    ("content", "found"),
    [
        (docx_of("text"), FileKind.DOCX),
        (zip_of({"[Content_Types].xml": b"", "a": b""}), None),
        (zip_of({"word/document.xml": b""}), FileKind.DOCX),
        (zip_of({"mimetype": b"application/epub+zip", "x": b""}), FileKind.EPUB),
        (zip_of({"mimetype": OPEN + b"presentation"}), "export it as PPTX or PDF"),
        (zip_of({"Index/Document.iwa": b""}), "Apple Pages"),
        (zip_of({"META-INF/MANIFEST.MF": b"", "a.class": b""}), "is an archive"),
        (zip_of({}), "is an archive"),
        (ole_of({"Attachment": {"WordDocument": b""}, "Workbook": b"x" * 9_000}), FileKind.XLS),
        (
            ole_of({f"Stream {n}": b"" for n in range(40)} | {"WordDocument": b""}),
            "save it as .docx",
        ),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an old Office file"),
        (b"\x89PNG\r\n\x1a\n", FileKind.PICTURE),
        (b"MZ\x90\x00\x03", "is a program"),
        (b"#!/bin/sh\necho", "is a program"),
        (b"<?xml version='1.0'?><a>text</a>", "is XML"),
        (b"", "is empty"),
    ],
)
def test_a_file_without_a_suffix_may_be_a_document(
    content: bytes, found: FileKind | str | None
) -> None:
    start = outcome_of(lambda: kind_of_start(BytesIO(content)))
    if found is None or isinstance(found, FileKind):
        assert start is found
    else:
        assert start is not None
        assert start.startswith("refused: ")
        assert found in start


@given(st.binary(max_size=2_000))
def test_any_start_of_an_office_file_is_read(content: bytes) -> None:
    outcome_of(lambda: kind_of_start(BytesIO(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + content)))
    outcome_of(lambda: kind_of_start(BytesIO(b"PK\x03\x04" + content)))
