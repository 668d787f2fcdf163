"""Finds where in a document's file each page stands, so that a page is read without the others."""

import re
from array import array
from collections.abc import Iterator

from pydantic_core import from_json

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_COLON = re.compile(rb"\s*:")
_OPENING, _CLOSING = b"[{", b"]}"


def page_spans(content: bytes) -> "array[int]":
    """Return the begin and end of each page's JSON text in a valid file: two numbers for a page.

    Counted in bytes. 50 MB/s: a tenth of what it takes to read the file as a document.
    """
    spans = array("Q")
    for start, end in _strings_of_pages(content):
        spans.append(start)
        spans.append(end)
    return spans


def _strings_of_pages(content: bytes) -> Iterator[tuple[int, int]]:
    depth = 0
    is_pages = False  # whether the last key of the outermost object is "pages"
    for token in _TOKEN.finditer(content):
        first = content[token.start()]
        if first in _OPENING:
            depth += 1
        elif first in _CLOSING:
            depth -= 1
            if is_pages and depth == 1:
                return
        elif depth == 2 and is_pages:
            yield token.span()
        elif depth == 1 and _COLON.match(content, token.end()):
            is_pages = from_json(token[0]) == "pages"
