"""Which text a section or a span of pages holds."""

from collections.abc import Iterator

from mcp_tools_proxy.domain.document import Document, Section

PAGE_SEPARATOR = "\n\n"
"""Pages are joined by a blank line (contract §2)."""


def section_parts(document: Document, section: Section) -> Iterator[str]:
    """Yield the section's text piece by piece, separators included."""
    for page in range(section.page_start, section.page_end + 1):
        if page > section.page_start:
            yield PAGE_SEPARATOR
        start = section.start_char if page == section.page_start else None
        end = section.end_char if page == section.page_end else None
        yield document.pages[page - 1][start:end]


def page_parts(document: Document, page_start: int, page_end: int) -> Iterator[str]:
    """Yield the text of pages ``page_start`` to ``page_end`` (1-based), separators included."""
    for page in range(page_start, page_end + 1):
        if page > page_start:
            yield PAGE_SEPARATOR
        yield document.pages[page - 1]
