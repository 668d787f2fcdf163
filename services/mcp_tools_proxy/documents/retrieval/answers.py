"""Validates the responses of a Retrieval Service (contract T-03)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import from_json

from mcp_tools_proxy.domain.document import RetrievedChunk
from mcp_tools_proxy.domain.errors import ChunkNotFound, RetrievalUnavailable
from mcp_tools_proxy.wire.identifiers import id_of
from mcp_tools_proxy.wire.json_structure import has_structure_over
from mcp_tools_proxy.wire.strict_json import check_count, whole_number
from mcp_tools_proxy.wire.text import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedWindow:
    """The requested window: the anchor, with the number of chunks on each side."""

    tenant_id: str
    doc_id: str
    anchor_chunk_id: str
    before: int
    after: int
    trace_id: str


def _null_is_empty(value: object) -> object:
    return "" if value is None else value


MAX_VALUES = 20_000
"""Values of an answer, whose chunks are few: parsing 600,000 keys stalled all calls for 0.4 s."""

_VERSION_CHARS = 256

_MAX_STRUCTURE_BYTES = 1024 * 1024
"""Far above that of the largest window; parsed, it takes up to 24 times as much memory."""

_DIGITS = re.compile(r"[0-9]{1,10}")


def _number(value: object) -> object:
    """Convert 3.0 and "3" to 3: stores of chunks keep numbers as floats or as text."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    return whole_number(value)


_Place = Annotated[Annotated[int, Field(ge=0, lt=2**31)] | None, BeforeValidator(_number)]

_Percent = Annotated[Annotated[int, Field(ge=0, le=100)] | None, BeforeValidator(_number)]


class _ChunkBody(BaseModel, strict=True):
    chunk_id: Annotated[str, Field(min_length=1), BeforeValidator(id_of)]
    page: _Place = None
    chunk_index: _Place = None
    start_char: _Place = None
    end_char: _Place = None
    version: Annotated[str, Field(max_length=_VERSION_CHARS)] | None = None
    ocr: _Percent = None
    text: Annotated[str, BeforeValidator(_null_is_empty)] = ""


class _WindowBody(BaseModel, strict=True):
    chunks: list[_ChunkBody]


def read_chunks(body: bytes, wanted: WantedWindow) -> tuple[RetrievedChunk, ...]:
    """Parse the body of a 200 response; return the requested chunks in reading order.

    That is the order of ``chunk_index`` where every chunk has one, else the order of the response.
    Chunks beyond the requested sides are left out. Raises ChunkNotFound, RetrievalUnavailable.
    """
    if has_structure_over(body, _MAX_STRUCTURE_BYTES):
        raise unavailable(f"sent more than {_MAX_STRUCTURE_BYTES} bytes of JSON besides texts")
    try:
        check_count(body, MAX_VALUES)
        answer = _WindowBody.model_validate(from_json(body, allow_inf_nan=False))
    except ValueError as error:  # of parsing or of validation
        raise unavailable("sent an answer that is not valid") from error
    if not answer.chunks:
        raise no_such_chunk(wanted)
    if len({chunk.chunk_id for chunk in answer.chunks}) < len(answer.chunks):
        raise unavailable("sent a chunk twice")
    chunks = _in_reading_order([RetrievedChunk(**chunk.model_dump()) for chunk in answer.chunks])
    anchor = place_of_anchor(chunks, wanted.doc_id, wanted.anchor_chunk_id)
    if anchor is None:
        raise unavailable("sent a window without its anchor")
    if len(chunks) <= wanted.before + wanted.after + 1 and not _have_index(chunks):
        return chunks  # in an unknown order: which ones are beyond a side cannot be told
    return chunks[max(anchor - wanted.before, 0) : anchor + wanted.after + 1]


def place_of_anchor(
    chunks: Sequence[RetrievedChunk], doc_id: str, anchor_chunk_id: str
) -> int | None:
    """Return the index of the anchor in a window, None if it is not there.

    Its id may be ``doc_id:anchor`` on either side: some Retrieval Services store chunks under it,
    and name them without the document elsewhere.
    """
    prefix = f"{doc_id}:"
    ids = [chunk.chunk_id for chunk in chunks]
    for spelling in (anchor_chunk_id, prefix + anchor_chunk_id):
        if spelling in ids:
            return ids.index(spelling)
    short = anchor_chunk_id.removeprefix(prefix)
    return ids.index(short) if short in ids else None


def _in_reading_order(chunks: list[RetrievedChunk]) -> tuple[RetrievedChunk, ...]:
    if not _have_index(chunks):
        return tuple(chunks)
    return tuple(sorted(chunks, key=lambda chunk: chunk.chunk_index or 0))


def _have_index(chunks: Sequence[RetrievedChunk]) -> bool:
    return all(chunk.chunk_index is not None for chunk in chunks)


def no_such_chunk(wanted: WantedWindow) -> ChunkNotFound:
    """Build the error for a chunk or a document that Retrieval does not have."""
    return ChunkNotFound(
        f"document {quote(wanted.doc_id)} has no chunk {quote(wanted.anchor_chunk_id)}; take a "
        "chunk_id from doc_local_search"
    )


def unavailable(reason: str) -> RetrievalUnavailable:
    """Build the error for a missing or invalid response."""
    return RetrievalUnavailable(
        f"the Retrieval Service {reason}; try again later, or tell the user"
    )
