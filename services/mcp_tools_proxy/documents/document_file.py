"""Document file format: one document as one JSON file, and its path (contract §5).

Only this module knows the format.
"""

import os
from array import array
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote, unquote

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import to_json

from mcp_tools_proxy.documents.pacing import TooLargePart, paced, parse_paced, pause
from mcp_tools_proxy.domain.document import (
    Chunk,
    Document,
    DocumentSource,
    ImportWarning,
    MetadataValue,
    Readers,
    Section,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.storage.files import write_atomically
from mcp_tools_proxy.wire.encoding import json_list, json_text
from mcp_tools_proxy.wire.identifiers import Identifier, LanguageTag
from mcp_tools_proxy.wire.problem_texts import closest_match, join_first, place_of, problem_of
from mcp_tools_proxy.wire.strict_json import RepeatedKey, TooManyItems
from mcp_tools_proxy.wire.text import quote as quoted

READERS, UNTRUSTED = "readers", "untrusted"

MAX_FOREIGN_ITEMS = 200_000
"""Limit for the JSON values of an uploaded or imported document. 8,000 pages with 24,000 chunks (64
MiB) have 104,000; 16 MB of zeros in place of pages took 7 GB and a minute."""

MAX_FOREIGN_TEXT_BYTES = 1024 * 1024
"""Limit for one page, section, chunk or other value of such a document, as JSON: comparing a quote
with a page of 4 MiB stopped the event loop for 0.15 s."""

MAX_METADATA = 50
"""Own fields of a document."""

MAX_WARNINGS = 50

MAX_NAME_BYTES = 255
"""Longest file name, in bytes, of common file systems."""


class BrokenFile(Exception):
    """A file without a valid document; ``reason`` is one line without the file's content.

    ``field`` is the path of the first problem, or "" for the whole document.
    """

    def __init__(self, path: Path, reason: str, *, field: str = "") -> None:
        super().__init__(f"{path.name}: {reason}")
        self.path = path
        self.reason = reason
        self.field = field


class InvalidDocument(Exception):
    """A document cannot be written as a file; ``reason`` is one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DocumentExists(Exception):
    """A file exists at ``path`` and may not be replaced."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists")
        self.path = path


def read_document(path: Path) -> Document:
    """Read a document file. Raises BrokenFile."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BrokenFile(path, f"cannot be read: {error.strerror}") from error
    return parse_document(path, content)


def parse_document(path: Path, content: bytes, *, is_foreign: bool = False) -> Document:
    """Parse the content of a document file; ``path`` is named in errors.

    Unknown keys are ignored. ``is_foreign`` applies the limits above. Pauses often for other
    threads. Raises BrokenFile if the content is not strict JSON (UTF-8, no NaN, no lone surrogates,
    no repeated keys) or breaks a rule of contract §5.
    """
    try:
        parsed = parse_paced(
            content,
            max_items=MAX_FOREIGN_ITEMS if is_foreign else None,
            max_part_bytes=MAX_FOREIGN_TEXT_BYTES if is_foreign else None,
        )
        return _valid_file(parsed).to_document()
    except _InvalidFile as error:
        raise BrokenFile(path, error.reason, field=error.field) from error
    except RepeatedKey as error:
        field = place_of({"loc": error.place}, whole="")
        reason = f"{field or 'document'}: is named twice in its object; keep one"
        raise BrokenFile(path, reason, field=field) from error
    except (TooManyItems, TooLargePart) as error:
        raise BrokenFile(path, str(error)) from error
    except ValueError as error:
        raise BrokenFile(path, f"is not strict JSON: {error}") from error


def dump_document(document: Document) -> bytes:
    """Return the JSON of a document's file. Raises InvalidDocument."""
    return b"".join(DocumentDump(document))


class DocumentDump:
    """The JSON of a document file in pieces, to avoid a second copy in memory.

    Iterate once. Construction and iteration raise InvalidDocument.
    """

    def __init__(self, document: Document) -> None:
        self.spans = array("Q")
        """Start and end byte of each page yielded so far, as in ``page_spans``."""
        self._file = _file_of(document)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces."""
        position = 0
        try:
            for piece, is_page in self._pieces():
                if is_page:
                    self.spans.append(position)
                    self.spans.append(position + len(piece))
                position += len(piece)
                yield piece
        except ValueError as error:  # lone surrogates have no UTF-8
            raise InvalidDocument(f"cannot be written as JSON: {error}") from error

    def _pieces(self) -> Iterator[tuple[bytes, bool]]:
        """Yield pairs of a piece and whether it is a page's text."""
        file = self._file
        facts = (file.doc_id, file.tenant_id, file.title, file.tags)
        names = b'{\n "doc_id": %b,\n "tenant_id": %b,\n "title": %b,\n "tags": %b'
        yield names % tuple(map(to_json, facts)), False
        yield b',\n "pages": [', False
        for number, text in enumerate(file.pages):
            yield b",\n  " if number else b"\n  ", False
            yield json_text(text), True
        yield b"]", False
        for piece in self._after_pages():
            yield piece, False

    def _after_pages(self) -> Iterator[bytes]:
        file = self._file
        yield b',\n "sections": '
        sections = (to_json(section, exclude_none=True) for section in file.sections)
        yield from json_list(sections, before=b"\n  ")
        if file.readers is not None:
            yield b',\n "readers": %b' % to_json(file.readers)
        if file.language is not None:
            yield b',\n "language": %b' % to_json(file.language)
        if file.ocr:
            yield b',\n "ocr": %b' % to_json(file.ocr)
        for name in _FACTS:
            if value := getattr(file, name):
                yield b',\n "%b": %b' % (name.encode(), to_json(value))
        if file.chunks is not None:
            yield b',\n "chunks": '
            chunks = (
                b'{"chunk_id":%b,"page":%d,"text":%b}'
                % (to_json(chunk.chunk_id), chunk.page, json_text(chunk.text))
                for chunk in file.chunks
            )
            yield from json_list(chunks, before=b"\n  ")
        yield b"\n}\n"


def _file_of(document: Document) -> "_DocumentFile":
    content: dict[str, object] = {
        "doc_id": document.doc_id,
        "tenant_id": document.tenant_id,
        "title": document.title,
        "tags": list(document.tags),
        "pages": list(document.pages),
        "language": document.language,
        "ocr": list(document.ocr),
        "text_format": document.text_format,
        "date": document.date,
        "metadata": dump_metadata(document.metadata),
        "warnings": [{"code": it.code, "message": it.message} for it in document.warnings],
        "source": dump_source(document.source),
        "expires_at": None if document.expires_at is None else document.expires_at.isoformat(),
        "untrusted": document.is_untrusted,
        "sections": [
            {name: getattr(section, name) for name in _SectionEntry.model_fields}
            for section in document.sections.values()
        ],
    }
    if document.readers is not None:
        content[READERS] = dump_readers(document.readers)
    if document.own_chunks is not None:
        content["chunks"] = [
            {name: getattr(chunk, name) for name in _ChunkEntry.model_fields}
            for chunk in document.own_chunks
        ]
    try:
        return _valid_file(content)
    except _InvalidFile as error:
        raise InvalidDocument(error.reason) from error


def dump_readers(readers: Readers) -> dict[str, list[str]]:
    """Return readers in the format of a document file."""
    return {"users": sorted(readers.users), "roles": sorted(readers.roles)}


def dump_metadata(metadata: Mapping[str, MetadataValue]) -> dict[str, object]:
    """Return metadata in the format of a document file."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in metadata.items()
    }


def dump_source(source: DocumentSource | None) -> dict[str, str] | None:
    """Return a source in the format of a document file."""
    return None if source is None else dict(zip(_SourceEntry.model_fields, source, strict=True))


def load_metadata(metadata: Mapping[str, Any]) -> dict[str, MetadataValue]:
    """Return the metadata of a document file in the domain's types."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in metadata.items()
    }


def document_path(root: Path, tenant_id: str, doc_id: str) -> Path:
    """Return the canonical path of a document: ``<tenant>/<doc_id>.json`` below ``root``.

    Both names are percent-encoded UTF-8, including a leading dot, so unquoting restores the id and
    no id escapes ``root`` (contract §5). If that exceeds 255 bytes, letters and digits of any
    script stay unencoded. Raises InvalidDocument if the name is still too long.
    """
    return root / _file_name("tenant_id", tenant_id) / _file_name("doc_id", doc_id, ".json")


def tenant_of_folder(root: Path, path: Path) -> str | None:
    """Return the tenant of a file: the first folder below ``root``, decoded.

    Returns None for a file in ``root`` itself, where only the operator can write. A name that is
    not UTF-8 is returned undecoded and matches no tenant.
    """
    first, *rest = path.relative_to(root).parts
    if not rest:
        return None
    try:
        return unquote(first, errors="strict")
    except UnicodeDecodeError:
        return first


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A written document file, its status and the positions of its pages."""

    path: Path
    status: os.stat_result
    spans: "array[int]"


def write_document(root: Path, document: Document, *, replace: bool) -> WrittenFile:
    """Write a document to its canonical path, atomically.

    Raises DocumentExists (unless ``replace``), InvalidDocument, OSError.
    """
    dump = DocumentDump(document)
    path = document_path(root, document.tenant_id, document.doc_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        status = write_atomically(path, dump, overwrite=replace)
    except FileExistsError as error:
        raise DocumentExists(path) from error
    return WrittenFile(path=path, status=status, spans=dump.spans)


def _file_name(field: str, identifier: str, suffix: str = "") -> str:
    letters = "".join(c for c in identifier if c.isalnum())
    for safe in ("", letters):
        name = "".join(c if c in safe else quote(c, safe="") for c in identifier) + suffix
        name = "%2E" + name[1:] if name.startswith(".") else name
        size = len(name.encode())
        if size <= MAX_NAME_BYTES:
            break
    else:
        raise InvalidDocument(
            f"{field} is too long for a file name: {size} bytes, the limit is {MAX_NAME_BYTES}"
        )
    return name


class _InvalidFile(Exception):
    """A file breaks a rule of contract §5; ``field`` is the path of its first problem.

    ``before`` is the field of a validated slice and the number of items before the slice.
    """

    def __init__(self, error: ValidationError, before: tuple[str, int] | None = None) -> None:
        super().__init__()
        problems = error.errors(include_input=False, include_url=False)
        if before is not None:
            name, first = before
            for problem in problems:
                index, *inside = problem["loc"]
                problem["loc"] = (name, first + int(index), *inside)
        self.field = place_of(problems[0], whole="")
        self.reason = join_first(
            problems,
            lambda it: f"{place_of(it, whole='document')}: {problem_of(it)}",
            limit=1,
            more=" (and {} more)",
        )


_STRICT = ConfigDict(strict=True, extra="ignore", frozen=True, defer_build=True)
_PageNumber = Annotated[int, Field(ge=1)]
_Offset = Annotated[int, Field(ge=0)]
_Percent = Annotated[int, Field(ge=0, le=100)]
_ShortText = Annotated[str, Field(max_length=1_000)]
_MetadataKey = Annotated[str, Field(min_length=1, max_length=64)]
_MetadataEntry = (
    bool
    | int
    | Annotated[float, Field(allow_inf_nan=False)]
    | _ShortText
    | Annotated[list[_ShortText], Field(max_length=100)]
)
Metadata = Annotated[dict[_MetadataKey, _MetadataEntry], Field(max_length=MAX_METADATA)]
"""Own fields of a document."""

_FACTS = ("text_format", "date", "metadata", "warnings", "source", "expires_at", "untrusted")
_FAIL_FAST = Field(fail_fast=True)  # one error for each of two million zeros took 1.7 GB


class _SectionEntry(BaseModel):
    model_config = _STRICT

    section_id: Identifier
    title: str
    page_start: _PageNumber
    page_end: _PageNumber
    start_char: _Offset | None = None
    end_char: _Offset | None = None

    def check_within(self, pages: list[str]) -> None:
        if self.page_start > self.page_end:
            raise ValueError(f"page_start {self.page_start} is after page_end {self.page_end}")
        if self.page_end > len(pages):
            raise ValueError(f"page_end {self.page_end} is past the last page, {len(pages)}")
        start, end = self.start_char or 0, self.end_char
        if start > len(pages[self.page_start - 1]):
            raise ValueError("start_char is past the end of page_start's text")
        if end is None:
            return
        if end > len(pages[self.page_end - 1]):
            raise ValueError("end_char is past the end of page_end's text")
        if self.page_start == self.page_end and start > end:
            raise ValueError("start_char is after end_char")


class _ChunkEntry(BaseModel):
    model_config = _STRICT

    chunk_id: Identifier
    page: _PageNumber
    text: str


class _ReadersEntry(BaseModel):
    """Readers of the document. Unknown keys are refused: they may be misspelt."""

    model_config = _STRICT | ConfigDict(extra="forbid")

    users: Annotated[list[Identifier], _FAIL_FAST] = []
    roles: Annotated[list[Identifier], _FAIL_FAST] = []

    def to_readers(self) -> Readers:
        return Readers(users=frozenset(self.users), roles=frozenset(self.roles))


class _WarningEntry(BaseModel):
    model_config = _STRICT

    code: _ShortText
    message: _ShortText


class _SourceEntry(BaseModel):
    model_config = _STRICT

    name: Identifier
    path: _ShortText
    digest: _ShortText
    importer: _ShortText
    folder: _ShortText = ""


def _check_date(value: str) -> str:
    try:
        is_date = date.fromisoformat(value).isoformat() == value
    except ValueError:
        is_date = False
    if not is_date:
        raise ValueError("should be a date such as 2027-01-31")
    return value


def _in_utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("should have an offset from UTC, such as 2027-01-31T12:00:00Z")
    try:
        return value.astimezone(UTC)
    except OverflowError:  # in the first or last year of the calendar
        raise ValueError("is outside of the years 1 to 9999 in UTC") from None


DocumentDate = Annotated[
    str, AfterValidator(_check_date), Field(json_schema_extra={"format": "date"})
]
"""A date such as 2027-01-31."""

ExpiryTime = Annotated[datetime, Field(strict=False), AfterValidator(_in_utc)]
"""A time with an offset from UTC, converted to UTC."""


class _DocumentFile(BaseModel):
    model_config = _STRICT

    doc_id: Identifier
    tenant_id: Identifier
    title: str
    tags: Annotated[list[str], _FAIL_FAST] = []
    pages: Annotated[list[str], Field(min_length=1, fail_fast=True)]
    sections: Annotated[list[_SectionEntry], _FAIL_FAST] = []
    chunks: Annotated[list[_ChunkEntry], _FAIL_FAST] | None = None
    readers: _ReadersEntry | None = None
    language: LanguageTag | None = None
    ocr: Annotated[list[_Percent | None], _FAIL_FAST] = []
    text_format: Literal["markdown", "plain"] | None = None
    date: DocumentDate | None = None
    metadata: Metadata = {}
    warnings: Annotated[list[_WarningEntry], Field(max_length=MAX_WARNINGS, fail_fast=True)] = []
    source: _SourceEntry | None = None
    expires_at: ExpiryTime | None = None
    untrusted: bool = False

    @model_validator(mode="before")
    @classmethod
    def _check_protection(cls, content: object) -> object:
        """Refuse a misspelt or null key that protects: without it, too much would be allowed."""
        if not isinstance(content, dict):
            return content
        for key in content.keys() - cls.model_fields.keys():
            if (meant := _protecting_key(key)) is not None:
                raise ValueError(f"{quoted(key)} is not a key of a document; did you mean {meant}?")
        if READERS in content and content[READERS] is None:
            raise ValueError("readers: should be an object; leave it out for all of the tenant")
        return content

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        if self.ocr and len(self.ocr) != len(self.pages):
            raise ValueError(f"ocr: should have one value for each of the {len(self.pages)} pages")
        for number, section in enumerate(paced(self.sections, every=_ENTRIES_AT_ONCE)):
            try:
                section.check_within(self.pages)
            except ValueError as error:
                raise ValueError(f"sections.{number}: {error}") from error
        for number, chunk in enumerate(paced(self.chunks or (), every=_ENTRIES_AT_ONCE)):
            if chunk.page > len(self.pages):
                raise ValueError(f"chunks.{number}: page is past the last page, {len(self.pages)}")
        _refuse_repeats("sections", "section_id", [entry.section_id for entry in self.sections])
        _refuse_repeats("chunks", "chunk_id", [entry.chunk_id for entry in self.chunks or ()])
        return self

    def to_document(self) -> Document:
        chunks = None
        if self.chunks is not None:
            chunks = tuple(
                Chunk(
                    chunk_id=entry.chunk_id,
                    page=entry.page,
                    chunk_index=index,
                    source=entry.text,
                    start=0,
                    end=len(entry.text),
                )
                for index, entry in enumerate(paced(self.chunks, every=_ENTRIES_AT_ONCE))
            )
        return Document(
            tenant_id=self.tenant_id,
            doc_id=self.doc_id,
            title=self.title,
            pages=tuple(self.pages),
            sections={
                entry.section_id: Section(**entry.model_dump())
                for entry in paced(self.sections, every=_ENTRIES_AT_ONCE)
            },
            tags=tuple(self.tags),
            own_chunks=chunks,
            readers=None if self.readers is None else self.readers.to_readers(),
            language=self.language,
            ocr=tuple(self.ocr),
            text_format=self.text_format,
            date=self.date,
            metadata=load_metadata(self.metadata),
            warnings=tuple(ImportWarning(it.code, it.message) for it in self.warnings),
            source=None if self.source is None else DocumentSource(**self.source.model_dump()),
            expires_at=self.expires_at,
            is_untrusted=self.untrusted,
        )


_LATER = ConfigDict(defer_build=True)
_ENTRIES: Mapping[str, TypeAdapter[list[Any]]] = {
    "sections": TypeAdapter(Annotated[list[_SectionEntry], _FAIL_FAST], config=_LATER),
    "chunks": TypeAdapter(Annotated[list[_ChunkEntry], _FAIL_FAST], config=_LATER),
}
_ENTRIES_AT_ONCE = 1_000
"""Entries validated per call: 190,000 sections stopped the event loop for 0.6 s."""


def _valid_file(content: object) -> _DocumentFile:
    if isinstance(content, dict):
        content = content | {
            name: _valid_entries(name, content[name])
            for name in _ENTRIES
            if isinstance(content.get(name), list)
        }
    try:
        return _DocumentFile.model_validate(content)
    except ValidationError as error:
        raise _InvalidFile(error) from error


def _valid_entries(name: str, entries: list[object]) -> list[BaseModel]:
    valid: list[BaseModel] = []
    for first in range(0, len(entries), _ENTRIES_AT_ONCE):
        part = entries[first : first + _ENTRIES_AT_ONCE]
        try:
            valid += _ENTRIES[name].validate_python(part)
        except ValidationError as error:
            raise _InvalidFile(error, (name, first)) from error
        pause()
    return valid


def _protecting_key(key: str) -> str | None:
    """Return the key that protects a document and that ``key`` resembles.

    The first letters have to be equal: ``headers`` does not resemble ``readers``.
    """
    folded = key.strip().lower()
    known = [it for it in (READERS, UNTRUSTED) if folded.startswith(it[0])]
    return closest_match(folded, known, least=0.75)


def _refuse_repeats(place: str, field: str, identifiers: list[str]) -> None:
    seen: set[str] = set()
    for number, identifier in enumerate(identifiers):
        if identifier in seen:
            raise ValueError(f"{place}.{number}: {field} was used before")
        seen.add(identifier)
