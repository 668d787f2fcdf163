"""Imports JSON and JSON Lines as ``key: value`` lines, and flat objects as tables."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from mcp_tools_proxy.documents.importers.base import (
    EMPTY,
    TOO_DEEP,
    FileFacts,
    Heading,
    ImportFailed,
    ImportOptions,
    build_document,
    clean,
    one_line,
    paginate,
)
from mcp_tools_proxy.documents.importers.pipe_table import table_pages
from mcp_tools_proxy.documents.importers.text_encoding import decode_text
from mcp_tools_proxy.domain.document import Document, ImportWarning
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MAX_DEPTH = 60
"""Nesting limit; each level indents its lines."""

MAX_COLUMNS = 60
"""Objects with more keys in all are no table."""

MAX_LINE_CHARS = 200
"""Longer lists have a line per item."""

_OWN_KEYS = {"tenant_id", "doc_id", "title", "pages"}
_STEP = "  "
_JSON_LINES = re.compile(r"\s*\{.*\}[^\S\n]*\n\s*\{")
"""Two objects on two lines: JSON Lines in a file that is named .json."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Text that stays on one page if it fits, and the section that it starts."""

    text: str
    title: str = ""


def import_json(data: bytes, options: ImportOptions) -> Document:
    """Build a document from JSON; keys of the outermost object become sections.

    Raises ImportFailed.
    """
    decoded = decode_text(data, options)
    text = clean(decoded.text)
    if _JSON_LINES.match(text):
        return import_json_lines(data, options)
    value = _parsed(text)
    title = ""
    if isinstance(value, dict):
        if value.keys() >= _OWN_KEYS:
            raise ImportFailed(
                "is a document file of this gateway: put it into the documents folder, or upload "
                "it as application/json"
            )
        title = value["title"] if isinstance(value.get("title"), str) else ""
    return _document(_pieces(value), options, title=title, warnings=decoded.warnings)


def import_json_lines(data: bytes, options: ImportOptions) -> Document:
    """Build a document from JSON Lines, one record per line. Raises ImportFailed."""
    decoded = decode_text(data, options)
    lines = clean(decoded.text).split("\n")
    records = [_parsed(line, number) for number, line in enumerate(lines, start=1) if line.strip()]
    return _document(_record_pieces(records), options, warnings=decoded.warnings)


class _RepeatedKey(list[object]):
    """The values of a key that an object has more than once."""


def _with_all_values(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        values: dict[str, _RepeatedKey] = {}
        for key, value in pairs:
            values.setdefault(key, _RepeatedKey()).append(value)
        record.update({key: found for key, found in values.items() if len(found) > 1})
    return record


def _parsed(text: str, line: int = 1) -> object:
    try:
        # numbers as they are written
        value: object = json.loads(
            text,
            parse_float=str,
            parse_int=str,
            parse_constant=str,
            object_pairs_hook=_with_all_values,
        )
    except json.JSONDecodeError as error:
        where = f"line {line + error.lineno - 1}, column {error.colno}"
        raise ImportFailed(f"is not valid JSON: correct {where} ({error.msg})") from error
    except RecursionError as error:
        raise ImportFailed(TOO_DEEP) from error
    return value


def _document(
    pieces: Iterator[_Piece],
    options: ImportOptions,
    *,
    title: str = "",
    warnings: Sequence[ImportWarning],
) -> Document:
    found = [piece for piece in pieces if piece.text.strip()]
    if not found:
        raise ImportFailed(EMPTY)
    ends = list(accumulate(len(piece.text) for piece in found))
    pages = paginate("".join(piece.text for piece in found), ends)
    headings = []
    page, page_start = 1, 0
    for piece, end in zip(found, ends, strict=True):
        start = end - len(piece.text)
        while start >= page_start + len(pages[page - 1]):
            page_start += len(pages[page - 1])
            page += 1
        if piece.title:
            char = start - page_start
            headings.append(Heading(level=1, title=piece.title, page=page, char=char))
    return build_document(
        options,
        facts=FileFacts(title=title),
        pages=pages,
        headings=headings,
        text_format="plain",
        warnings=warnings,
    )


def _pieces(value: object) -> Iterator[_Piece]:
    if isinstance(value, list):
        yield from _record_pieces(value)
    elif isinstance(value, dict):
        for key, field in _items(value):
            yield from _field_pieces(one_line(key), field)
    else:
        yield _Piece(_scalar(value))


def _field_pieces(key: str, field: object) -> Iterator[_Piece]:
    """Yield a field of the outermost object."""
    if isinstance(field, list) and not _is_scalars(field):
        first, *others = _record_pieces(field)
        yield _Piece(f"{key}:\n\n{first.text}", key)
        yield from others
    else:
        lines = "".join(_lines(key, field, ""))
        is_section = isinstance(field, dict) and bool(field)
        yield _Piece(f"{lines}\n", key) if is_section else _Piece(lines)


def _record_pieces(records: list[object]) -> Iterator[_Piece]:
    """Yield tables of flat objects, otherwise a piece per record."""
    if columns := _columns(records):
        rows = (
            [_cell(record.get(column)) for column in columns]
            for record in records
            if isinstance(record, dict)
        )
        yield from (_Piece(f"{table}\n") for table in table_pages(columns, rows))
        return
    are_objects = all(isinstance(record, dict) for record in records)
    for record in records:
        if are_objects and isinstance(record, dict):
            yield _Piece(f"{''.join(_fields(record, ''))}\n")
        else:
            yield _Piece("".join(_item(record, "")))


def _columns(records: list[object]) -> Sequence[str]:
    """Return the keys of objects without nested values, or () if they are no table."""
    columns: dict[str, None] = {}
    for record in records:
        if not isinstance(record, dict) or not _is_scalars(list(record.values())):
            return ()
        columns.update(dict.fromkeys(record))
        if len(columns) > MAX_COLUMNS:
            return ()
    return tuple(columns) if len(records) > 1 else ()


def _is_scalars(values: Sequence[object]) -> bool:
    return not any(isinstance(value, dict | list) and value for value in values)


def _fields(record: dict[str, object], indent: str) -> Iterator[str]:
    for key, value in _items(record):
        yield from _lines(one_line(key), value, indent)


def _items(record: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the keys and values; a repeated key has a pair for each of its values."""
    for key, value in record.items():
        for found in value if isinstance(value, _RepeatedKey) else (value,):
            yield key, found


def _lines(key: str, value: object, indent: str) -> Iterator[str]:
    if len(indent) > MAX_DEPTH * len(_STEP):
        raise ImportFailed(TOO_DEEP)
    if isinstance(value, dict) and value:
        yield f"{indent}{key}:\n"
        yield from _fields(value, indent + _STEP)
    elif isinstance(value, list) and value:
        if _is_scalars(value) and len(line := ", ".join(map(_scalar, value))) <= MAX_LINE_CHARS:
            yield f"{indent}{key}: {one_line(line)}\n"
            return
        yield f"{indent}{key}:\n"
        for item in value:
            yield from _item(item, indent + _STEP)
    else:
        yield f"{indent}{key}: {_indented(_scalar(value), indent)}\n"


def _item(value: object, indent: str) -> Iterator[str]:
    """Yield the lines of an item of a list, marked with a hyphen."""
    if isinstance(value, dict) and value:
        first, *others = _fields(value, indent + _STEP)
        yield f"{indent}- {first.removeprefix(indent + _STEP)}"
        yield from others
    elif isinstance(value, list) and value:
        yield from _lines("-", value, indent)
    else:
        yield f"{indent}- {_indented(_scalar(value), indent)}\n"


def _indented(text: str, indent: str) -> str:
    """Return a text whose lines after the first are indented below their key."""
    return f"\n{indent}{_STEP}".join(text.split("\n"))


def _cell(value: object) -> str:
    return "" if value is None else _scalar(value)


def _scalar(value: object) -> str:
    """Return a text or number as it is, and what JSON writes for other values."""
    return clean(value) if isinstance(value, str) else json.dumps(value)
