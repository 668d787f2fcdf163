"""Pages of a list, for legacy HTTP+SSE alone: its Python clients refuse an event of 1 MiB.

Many clients list once and ignore ``nextCursor``, so no other entry has pages. A cursor is the
list's entity tag and an offset: any replica with the same list can go on.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence

from pydantic_core import to_json

from mcp_tools_proxy.wire.encoded_list import EncodedList
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import INVALID_PARAMS


def page_of(
    listed: EncodedList, etag: str, cursor: object, max_bytes: int
) -> tuple[Sequence[Mapping[str, object]], str | None]:
    """Return the page at a cursor, the first without one, and the next cursor if there is one.

    A page has at least one item. Raises JsonRpcError for the cursor of another list.
    """
    start = 0 if cursor is None else _offset_in(cursor, etag, len(listed))
    if not start and len(listed.as_json(ensure_ascii=True)) <= max_bytes:
        return listed, None
    end, size = start, 0
    while end < len(listed):
        size += len(to_json(listed[end], ensure_ascii=True)) + 1
        if size > max_bytes and end > start:
            break
        end += 1
    return listed[start:end], None if end == len(listed) else _cursor(etag, end)


def _cursor(etag: str, offset: int) -> str:
    return urlsafe_b64encode(f"{etag} {offset}".encode()).decode()


def _offset_in(cursor: object, etag: str, count: int) -> int:
    """Return the offset that a cursor names. Raises JsonRpcError."""
    try:
        tag, _, offset = urlsafe_b64decode(str(cursor)).decode("ascii").rpartition(" ")
    except ValueError:
        tag, offset = "", ""
    if tag == etag and offset.isdigit() and 0 < int(offset) < count:
        return int(offset)
    raise JsonRpcError(
        INVALID_PARAMS, "cursor: invalid, or the list has changed; leave it out to start over"
    )
