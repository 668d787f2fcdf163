"""Advice for the warnings of imports, by entry: the command line, the HTTP API and the console."""

import glob
import shlex
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from mcp_tools_proxy.documents.importers.base import WarningCode
from mcp_tools_proxy.domain.document import ImportWarning


class Advice(NamedTuple):
    """One sentence for each entry; ``in_folder`` is that for a file of a folder.

    A single import of such a file would be another document. The CLI adds ``folder_options``.
    """

    cli: str
    http: str
    console: str
    in_folder: str
    folder_options: str = ""


class ImportEntry(Enum):
    """The place at which a file was imported, or its warnings are read."""

    CLI = "cli"
    HTTP = "http"
    CONSOLE = "console"


def _same(text: str) -> Advice:
    return Advice(text, text, text, text)


_ADVICE: Mapping[str, Advice] = {
    WarningCode.PAGES_WITHOUT_TEXT: Advice(
        cli="If they are scanned, import the file again with --ocr-languages eng --replace; this "
        "needs mcp-tools-proxy[ocr], or the image tag :ocr.",
        http="If they are scanned, have MCP_PROXY_OCR_LANGUAGES set on the gateway, then upload "
        "the file again.",
        console="If they are scanned, set MCP_PROXY_OCR_LANGUAGES on the gateway, then add the "
        "file again.",
        in_folder="If they are scanned, set MCP_PROXY_OCR_LANGUAGES=eng, then import the folder "
        "again; this needs mcp-tools-proxy[ocr], or the image tag :ocr.",
    ),
    WarningCode.UNREADABLE_TEXT: Advice(
        cli="Export the file again, or import it with --ocr-languages eng --replace.",
        http="Export the file again, or have MCP_PROXY_OCR_LANGUAGES set on the gateway.",
        console="Export the file again, or set MCP_PROXY_OCR_LANGUAGES on the gateway.",
        in_folder="Export the file again, or set MCP_PROXY_OCR_LANGUAGES=eng, then import the "
        "folder again.",
    ),
    WarningCode.OCR_WITHOUT_TEXT: _same("Compare these pages with the file."),
    WarningCode.HIDDEN_TEXT: _same(
        "Check the file: hidden text can contain instructions for models."
    ),
    WarningCode.GUESSED_ENCODING: Advice(
        cli="If letters are wrong, import the file again with the same options, --replace and "
        "--encoding windows-1252, or its encoding.",
        http="If letters are wrong, upload the file again with its charset in Content-Type.",
        console="If letters are wrong, save the file as UTF-8, then add it again.",
        in_folder="If letters are wrong, import the folder again with the encoding of the file.",
        folder_options="Use the same options, but --include {include} --encoding windows-1252, or "
        "its encoding.",
    ),
    WarningCode.BROKEN_FRONT_MATTER: _same(
        "Correct the front matter of the file, such as quotes or brackets that are not closed."
    ),
    WarningCode.LOST_EQUATION: _same("Compare the equations with the file."),
    WarningCode.FORMULAS_WITHOUT_VALUES: Advice(
        cli="Save the file in a spreadsheet program, then import it again with --replace.",
        http="Save the file in a spreadsheet program, then upload it again.",
        console="Save the file in a spreadsheet program, then add it again.",
        in_folder="Save the file in a spreadsheet program, then import the folder again.",
    ),
    WarningCode.INSERTED_DOCUMENTS: Advice(
        cli="Save the file in Word, then import it again with --replace.",
        http="Save the file in Word, then upload it again.",
        console="Save the file in Word, then add it again.",
        in_folder="Save the file in Word, then import the folder again.",
    ),
}


def advice_on(warning: ImportWarning, entry: ImportEntry, path: str | None) -> str | None:
    """Return the advice on a warning that fits the entry; None for unknown codes.

    ``path`` is that of the file in its folder, if it was imported from one.
    """
    advice = _ADVICE.get(warning.code)
    if advice is None:
        return None
    if path is None:
        return str(getattr(advice, entry.value))
    if entry is not ImportEntry.CLI or not advice.folder_options:
        return advice.in_folder
    include = shlex.quote(f"/{glob.escape(path)}")
    return f"{advice.in_folder} {advice.folder_options.format(include=include)}"
