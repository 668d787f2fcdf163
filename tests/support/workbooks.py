"""Builds XLSX files of sheets of cells."""

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from tests.support.office_files import zip_of

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"

Cell = str | float | tuple[str | float, int] | None
"""A text or number, also with the number of its style, or no cell."""


def sheet_of(rows: Sequence[Sequence[Cell]], *, before: str = "", after: str = "") -> str:
    """Return rows as ``sheetData`` with XML before and after it."""
    lines = []
    for number, row in enumerate(rows, start=1):
        cells = "".join(
            _cell(f"{chr(ord('A') + column)}{number}", cell)
            for column, cell in enumerate(row)
            if cell is not None
        )
        lines.append(f'<row r="{number}">{cells}</row>')
    return f"{before}<sheetData>{''.join(lines)}</sheetData>{after}"


def xlsx_of(
    sheets: Mapping[str, str],
    *,
    states: Mapping[str, str] | None = None,
    formats: Sequence[str] = (),
    after: str = "",
    parts: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return a workbook of the sheets' XML; ``formats`` are those of the styles 1, 2, …

    ``after`` stands after the list of sheets.
    """
    names = list(sheets)
    listed = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{number}" r:id="r{number}"'
        f' state="{(states or {}).get(name, "visible")}"/>'
        for number, name in enumerate(names, start=1)
    )
    relations = "".join(
        f'<Relationship Id="r{number}" Type="{_OFFICE}/worksheet" '
        f'Target="worksheets/s{number}.xml"/>'
        for number, _ in enumerate(names, start=1)
    )
    codes = "".join(
        f'<numFmt numFmtId="{163 + number}" formatCode={quoteattr(code)}/>'
        for number, code in enumerate(formats, start=1)
    )
    styles = "".join(f'<xf numFmtId="{163 + number}"/>' for number in range(1, len(formats) + 1))
    overrides = "".join(
        f'<Override PartName="/xl/worksheets/s{number}.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
        for number, _ in enumerate(names, start=1)
    )
    return zip_of(
        {
            "[Content_Types].xml": (
                f'<Types xmlns="{_PACKAGE}/content-types">'
                '<Default Extension="rels" '
                'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
                '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxml'
                f'formats-officedocument.spreadsheetml.sheet.main+xml"/>{overrides}</Types>'
            ).encode(),
            "_rels/.rels": (
                f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="w" '
                f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
            ).encode(),
            "xl/workbook.xml": (
                f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">'
                f"<sheets>{listed}</sheets>{after}</workbook>"
            ).encode(),
            "xl/_rels/workbook.xml.rels": (
                f'<Relationships xmlns="{_PACKAGE}/relationships">{relations}</Relationships>'
            ).encode(),
            "xl/styles.xml": (
                f'<styleSheet xmlns="{_MAIN}"><numFmts>{codes}</numFmts>'
                f'<cellXfs><xf numFmtId="0"/>{styles}</cellXfs></styleSheet>'
            ).encode(),
            **{
                f"xl/worksheets/s{number}.xml": (
                    f'<worksheet xmlns="{_MAIN}">{xml}</worksheet>'.encode()
                )
                for number, xml in enumerate(sheets.values(), start=1)
            },
            **(parts or {}),
        }
    )


def _cell(place: str, cell: "str | float | tuple[str | float, int]") -> str:
    value, style = cell if isinstance(cell, tuple) else (cell, 0)
    about = f'<c r="{place}" s="{style}"' if style else f'<c r="{place}"'
    if isinstance(value, str):
        return f'{about} t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f"{about}><v>{value}</v></c>"
