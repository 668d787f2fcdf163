"""Advice for the warnings of imports, by entry: the command line, the HTTP API and the console."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from mcp_tools_proxy.documents.importers.base import WarningCode
from mcp_tools_proxy.domain.document import ImportWarning


class Advice(NamedTuple):
    """One sentence for each entry."""

    cli: str
    http: str
    console: str


class ImportEntry(Enum):
    """The place at which a file was imported, or its warnings are read."""

    CLI = "cli"
    HTTP = "http"
    CONSOLE = "console"


def _same(text: str) -> Advice:
    return Advice(text, text, text)


_ADVICE: Mapping[str, Advice] = {
    WarningCode.PAGES_WITHOUT_TEXT: Advice(
        cli="If they are scanned, import the file again with --ocr-languages eng --replace; this "
        "needs mcp-tools-proxy[ocr], or the image tag :ocr.",
        http="If they are scanned, have MCP_PROXY_OCR_LANGUAGES set on the gateway, then upload "
        "the file again.",
        console="If they are scanned, set MCP_PROXY_OCR_LANGUAGES on the gateway, then add the "
        "file again.",
    ),
    WarningCode.UNREADABLE_TEXT: Advice(
        cli="Export the file again, or import it with --ocr-languages eng --replace.",
        http="Export the file again, or have MCP_PROXY_OCR_LANGUAGES set on the gateway.",
        console="Export the file again, or set MCP_PROXY_OCR_LANGUAGES on the gateway.",
    ),
    WarningCode.OCR_WITHOUT_TEXT: _same("Compare these pages with the file."),
    WarningCode.HIDDEN_TEXT: _same(
        "Check the file: hidden text can contain instructions for models."
    ),
    WarningCode.GUESSED_ENCODING: Advice(
        cli="If letters are wrong, import the file again with --encoding and --replace.",
        http="If letters are wrong, upload the file again with its charset in Content-Type.",
        console="If letters are wrong, save the file as UTF-8, then add it again.",
    ),
    WarningCode.LOST_EQUATION: _same("Compare the equations with the file."),
    WarningCode.FORMULAS_WITHOUT_VALUES: Advice(
        cli="Save the file in a spreadsheet program, then import it again with --replace.",
        http="Save the file in a spreadsheet program, then upload it again.",
        console="Save the file in a spreadsheet program, then add it again.",
    ),
}


def advice_on(warning: ImportWarning, entry: ImportEntry) -> str | None:
    """Return the advice on a warning that fits the entry; None for unknown codes."""
    advice = _ADVICE.get(warning.code)
    return None if advice is None else str(getattr(advice, entry.value))
