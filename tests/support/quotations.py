"""Correct and nearly correct quotes of a document whose pages are typeset like a PDF's."""

import random
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp_tools_proxy.domain.document import Document

_ROOT = Path(__file__).resolve().parents[2]
_SEED = 20261126
_LINE_CHARS = 76
_PAGE_CHARS = 2_600
_BROKEN_WORD = re.compile(r"([^\W\d_]{4,})([^\W\d_]{3,}\W*)")
_LIGATURES = (("ffi", "ﬃ"), ("fi", "ﬁ"), ("fl", "ﬂ"))
_WORD = re.compile(r"\w")
_NAME = re.compile(r"\b[A-ZА-Я][^\W\d_A-ZА-Я]{2,}\b")
_NAMES = ("Ada", "Grace", "Linus", "Barbara", "Иванов", "Петрова", "Müller", "Dupont", "Redis")
_NEGATIONS = (
    (r"\b(is|are|was|can|may|will|does|has|must) ", r"\1 not "),
    (r" not\b", ""),
    (r"\b[Nn]o ", "a "),
    (r"\bnever\b", "always"),
    (r"\bcannot\b", "can"),
    (r"\bwithout\b", "with"),
    (r"(\w) не ", r"\1 "),
    (r" (может|должен|будет) ", r" не \1 "),
    (r" nicht\b", ""),
    (r" (wird|darf|muss) ", r" \1 nicht "),
    (r" ne (\w+) pas ", r" \1 "),
    (r"必须", "不必"),
    (r"不", ""),
)

_TEMPLATES = (
    "Инженер {name} проверил {number} насосов и не нашёл ни одной утечки, хотя давление доходило "
    "до {number} бар; отчёт № {number} он ещё не подписал.",
    "Der Prüfer {name} darf die Anlage {number} nicht ohne Rückflussverhinderer betreiben, und das "
    "Wartungsprotokoll vom {number}. März bleibt „unvollständig“.",
    "L’ingénieur {name} ne signe pas le procès-verbal {number} : « l’installation n’est pas "
    "conforme à l’article {number} », dit-il.",
    "El técnico {name} no encontró más de {number} piezas defectuosas; la garantía dura {number} "
    "meses.",
)
_CHINESE = (
    "工程师{name}在第{number}号报告里写道，压力不得超过{number}兆帕，阀门必须每{number}天检查一次。"
)
_SIGN = re.compile(r"[0-9]+|[A-Za-zА-яü]+|.")


@dataclass(frozen=True, slots=True)
class Quotations:
    """A document and its original prose: ``words``, and Chinese ``signs``."""

    document: Document
    words: tuple[str, ...]
    signs: tuple[str, ...]

    def true_quotes(self, count: int) -> Iterator[str]:
        """Yield quotes found in the document, one in twelve of them Chinese."""
        chance = random.Random(_SEED)  # noqa: S311 - not for secrets
        for _ in range(count):
            yield self._quote(chance)

    def false_quotes(self, count: int) -> Iterator[tuple[str, str]]:
        """Yield a kind of change and the changed quote, which is not in the document."""
        chance = random.Random(_SEED + 1)  # noqa: S311 - not for secrets
        prose, chinese = " ".join(self.words), "".join(self.signs)
        alterations: list[tuple[str, Callable[[random.Random, str], str | None]]] = [
            ("digit", _other_digit),
            ("name", _other_name),
            ("negation", _negated),
            ("stitched", lambda chance, quote: _stitched(quote, self._quote(chance))),
        ]
        made = 0
        while made < count:
            kind, alter = alterations[made % len(alterations)]
            altered = (alter(chance, self._quote(chance)) or "").strip()
            if not altered or _stands(altered, prose) or altered in chinese:
                continue
            made += 1
            yield kind, altered

    def _quote(self, chance: random.Random) -> str:
        if chance.randrange(12) == 0:
            size = chance.randint(10, 120)
            start = chance.randrange(len(self.signs) - size)
            return "".join(self.signs[start : start + size])
        quote = ""
        while not 12 <= len(quote) <= 1_900:
            start = chance.randrange(len(self.words) - 80)
            quote = " ".join(self.words[start : start + chance.randint(3, 70)])
        return quote


def make_quotations(words: int | None = None) -> Quotations:
    """Typeset the pages of this project's documentation, and sentences of five other languages.

    ``words`` limits the words of the documentation; None is all.
    """
    chance = random.Random(_SEED)  # noqa: S311 - not for secrets
    files = [*sorted((_ROOT / "docs").glob("*/*.md")), *sorted(_ROOT.glob("*.md"))]
    prose = " ".join(file.read_text(encoding="utf-8") for file in files)
    mixed = tuple(
        word
        for number, word in enumerate(prose.split()[:words])
        for word in (word, *(_sentence(chance).split() if number % 150 == 0 else ()))
    )
    signs = tuple(_SIGN.findall("".join(_filled(chance, _CHINESE) for _ in range(600))))
    pages = _pages([*_lines(chance, mixed), *_cut(signs, 38)])
    document = Document(tenant_id="bench", doc_id="quotes", title="Quotes", pages=tuple(pages))
    return Quotations(document, mixed, signs)


def _stands(quote: str, prose: str) -> bool:
    """Return whether the prose contains the quote as whole words by chance."""
    return quote in prose and re.search(rf"(?<!\w){re.escape(quote)}(?!\w)", prose) is not None


def _sentence(chance: random.Random) -> str:
    return _filled(chance, chance.choice(_TEMPLATES))


def _filled(chance: random.Random, template: str) -> str:
    while "{" in template:
        template = template.replace("{name}", chance.choice(_NAMES), 1)
        template = template.replace("{number}", str(chance.randint(2, 9_999)), 1)
    return template


def _lines(chance: random.Random, words: tuple[str, ...]) -> Iterator[str]:
    """Yield lines as typeset: words broken, ligatures, marks, accents separated."""
    line = ""
    for word in words:
        if len(line) + len(word) < _LINE_CHARS:
            line += _set(chance, word) + " "
            continue
        broken = _BROKEN_WORD.fullmatch(word)
        if broken and chance.random() < 0.7:
            yield line + broken[1] + chance.choice("--‐\xad")
            line = _set(chance, broken[2]) + " "
        else:
            yield line.rstrip()
            line = _set(chance, word) + "  "
    yield line


def _set(chance: random.Random, word: str) -> str:
    if chance.random() < 0.5:
        for letters, ligature in _LIGATURES:
            word = word.replace(letters, ligature)
        word = word.replace("'", "’")
        word = re.sub(r'"(.*)"', r"“\1”", word)
    return unicodedata.normalize("NFD", word) if chance.random() < 0.1 else word


def _cut(signs: tuple[str, ...], size: int) -> Iterator[str]:
    for start in range(0, len(signs), size):
        yield "".join(signs[start : start + size])


def _pages(lines: list[str]) -> Iterator[str]:
    page: list[str] = []
    for line in lines:
        page.append(line)
        if sum(map(len, page)) > _PAGE_CHARS:
            yield "\n".join(page)
            page = []
    yield "\n".join(page)


def _other_digit(chance: random.Random, quote: str) -> str | None:
    """Replace, drop or repeat one digit.

    Digits at an end are not dropped, because the rest of "needs (2" is in the text.
    """
    places = [found.start() for found in re.finditer(r"[0-9]", quote)]
    if not places:
        return None
    at = chance.choice(places)
    other = chance.choice([it for it in "0123456789" if it != quote[at]])
    before, behind = quote[:at], quote[at + 1 :]
    new = chance.choice((other, other, "", quote[at] + other))
    if not new and not (_WORD.search(before) and _WORD.search(behind)):
        new = other
    return before + new + behind


def _other_name(chance: random.Random, quote: str) -> str | None:
    found = _NAME.findall(quote)
    if not found:
        return None
    old = chance.choice(found)
    return quote.replace(old, chance.choice([it for it in _NAMES if it != old]), 1)


def _negated(chance: random.Random, quote: str) -> str | None:
    for pattern, replacement in chance.sample(_NEGATIONS, len(_NEGATIONS)):
        negated = re.sub(pattern, replacement, quote, count=1)
        if negated != quote:
            return negated.strip()
    return None


def _stitched(quote: str, other: str) -> str | None:
    """Join the first half of one quote to the second half of another."""
    joint = " " if " " in quote and " " in other else ""
    halves = quote[: len(quote) // 2], other[len(other) // 2 :]
    if joint:
        halves = halves[0].rpartition(" ")[0], halves[1].partition(" ")[2]
    return joint.join(halves) if all(halves) else None
