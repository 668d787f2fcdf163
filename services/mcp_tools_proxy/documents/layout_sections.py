"""Which section stands over a place in a document."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from mcp_tools_proxy.domain.document import Section


def by_begin(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Order sections by where they begin; of those that begin together, parents stay first."""
    return tuple(sorted(sections, key=_begin))


def section_at(ordered: Sequence[Section], page: int, char: int) -> Section | None:
    """Find the innermost section over a place: of those around it, the one that begins last.

    ``ordered`` is what ``by_begin`` gives; ``char`` counts in the text of ``page`` (1-based).
    """
    for place in range(bisect_right(ordered, (page, char), key=_begin) - 1, -1, -1):
        section = ordered[place]
        if page < section.page_end or (
            page == section.page_end and (section.end_char is None or char < section.end_char)
        ):
            return section
    return None


def _begin(section: Section) -> tuple[int, int]:
    return section.page_start, section.start_char or 0
