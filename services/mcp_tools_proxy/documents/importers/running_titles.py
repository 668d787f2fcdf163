"""Text of headers and footers without page numbers."""

import re
from collections.abc import Iterable

PAGE_NUMBER = "\x01"
"""Placeholder of a page number in headers and footers."""

PAGE_FIELDS = frozenset({"PAGE", "NUMPAGES", "SECTIONPAGES"})
"""The names of the fields with page numbers in Word."""

_PAGE_NUMBERS = re.compile(
    r"(?:\b(?:page|pages|pag|pág|pg|p|seite|seiten|s|blatt|página|pagina|side|sida|sivu|strona|str|"
    r"strana|oldal|sayfa|стр|страница|сторінка|halaman|trang|σελίδα|صفحة|עמוד)\b\.?|第)?[\s:]{0,3}"
    rf"{PAGE_NUMBER}(?:\s*(?:of|from|von|de|du|sur|di|van|av|af|z|ze|из|з|/|\||-|–|共)?\s*"
    rf"{PAGE_NUMBER})?\s*(?:页|頁|ページ|쪽)?",
    re.IGNORECASE,
)


def running_title(lines: Iterable[str]) -> str:
    """Return the different lines of a header or footer on one line, "" if it has no text."""
    return " · ".join(dict.fromkeys(filter(None, map(without_page_numbers, lines))))


def without_page_numbers(line: str) -> str:
    """Return a line of a header or footer without page numbers and the words around them."""
    if PAGE_NUMBER in line:
        line = _PAGE_NUMBERS.sub("", line).replace(PAGE_NUMBER, "").strip(" -–—|/·,;")
    text = line.strip()
    return text if any(c.isalpha() for c in text) or len(text) > 4 else ""
