"""Conversion of text to terms: stemmed words, or character pairs in scripts without spaces."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache

import tantivy

from mcp_tools_proxy.documents.search.spellings import fold, with_spellings
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.text import normalize

_SAMPLE_CHARS = 12_000
"""Characters used for language detection, which takes up to 2 ms."""

_SAMPLES = 24
"""Number of samples, spread over the document: a translated manual has parts in English."""

_KNOWN_WORDS = 20_000
"""Words of which it is known whether they are stop words; takes 2 MB."""

_LEAST_SHARE = 0.1
"""Minimum share of stop words of the detected language; English has a third."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language: its name in the engine, and question words missing from its stop words."""

    name: str
    question_words: str = ""


ENGLISH = Language(
    "english",
    "can could did do does had has have how i its me my our should them us we were what when where"
    " which who whom whose why would you your from",
)
RUSSIAN = Language("russian", "почему нужно где куда какие каким какой какая какое сколько")

_OTHERS = (
    Language("danish", "hvad hvem hvilken hvilke hvordan hvorfor hvornår"),
    Language("dutch", "hoe waar waarom wanneer welk welke wie"),
    Language("finnish", "kuinka miksi milloin missä"),
    Language("french", "combien comment est faire fait où peut pourquoi quand quoi sont si"),
    Language("german", "darf gibt viele wann warum wer wem wen wieviel worin"),
    Language("hungarian", "hogyan hol mikor miért"),
    Language("italian", "cosa fare può possono quali quando quanto"),
    Language("norwegian", "hva hvem hvilken hvilke hvordan hvorfor når"),
    Language("portuguese", "é faço onde posso quais quando quanto são"),
    Language("spanish", "cómo cuál cuáles cuándo cuánto cuanto dónde es hago puedo quién son"),
    Language("swedish", "hur när ska vad vilka vilken var varför vem"),
)

_BY_TAG = {
    "en": ENGLISH,
    "ru": ENGLISH,
    **dict(
        zip(
            ["da", "nl", "fi", "fr", "de", "hu", "it", "no", "pt", "es", "sv"], _OTHERS, strict=True
        )
    ),
}
"""By primary subtag of BCP 47. Cyrillic words get Russian stems in every language."""


def language_of(document: Document) -> Language:
    """Return the language of a document: the declared one, or the detected one."""
    return declared_language(document.language) or detect_language(document.pages)


def declared_language(tag: str | None) -> Language | None:
    """Return the language of a BCP 47 tag; None if absent or unsupported."""
    return _BY_TAG.get((tag or "").partition("-")[0].lower())


def language_named(name: str) -> Language:
    """Return the language with the engine's name; English if unknown."""
    return next((language for language in (*_OTHERS, RUSSIAN) if language.name == name), ENGLISH)


def detect_language(texts: Sequence[str]) -> Language:
    """Detect the language of texts by their stop words; English if no other is clear.

    In Cyrillic texts, only words in Latin letters decide: Cyrillic words get Russian stems in every
    language.
    """
    counts = Counter(_words().analyze(_sample(texts)))
    stop_words = _STOP_WORDS.learned(counts.keys())
    found = {
        language: sum(map(counts.__getitem__, counts.keys() & words))
        for language, words in stop_words.items()
    }
    best = max(found, key=found.__getitem__)
    return best if found[best] >= _LEAST_SHARE * counts.total() else ENGLISH


class _StopWords:
    """The stop words of each language among the words of documents: the engine does not list them.

    Asking it for each word of each document took a fifth of the CPU of an index.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._of: dict[Language, set[str]] = {it: set() for it in (ENGLISH, *_OTHERS)}

    def learned(self, words: Set[str]) -> Mapping[Language, Set[str]]:
        """Return the known stop words, which include those among ``words``."""
        if new := {*words} - self._known:
            text = " ".join(new)
            whole = new.intersection(_words().analyze(text))  # some are split again, like i\u0307
            for language, stop_words in self._of.items():
                stop_words.update(whole.difference(_without_stop_words(language).analyze(text)))
            if len(self._known) > _KNOWN_WORDS:
                self._known = set()
            self._known |= new
        return self._of


_STOP_WORDS = _StopWords()


def _sample(texts: Sequence[str]) -> str:
    step = max(1, len(texts) // _SAMPLES)
    chosen = texts[::step]
    length = _SAMPLE_CHARS // max(1, len(chosen))
    pieces = (text[max(0, (len(text) - length) // 2) :][:length] for text in chosen)
    return " ".join(pieces).encode(errors="replace").decode()


@lru_cache(1)
def _words() -> tantivy.TextAnalyzer:
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.lowercase())
        .build()
    )


@lru_cache
def _without_stop_words(language: Language) -> tantivy.TextAnalyzer:
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.stopword(language.name))
        .build()
    )


TERM_BYTES = 255
"""Longer words are neither indexed nor searched."""

_KNOWN_RUNS = 8_192
"""Cached terms per language for snippets; takes 1.5 MB."""

_UNSPACED = (
    r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0edf\u1000-\u109f\u1780-\u17ff\u3005-\u3007"
    r"\u3041-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_HANGUL = r"\u1100-\u11ff\uac00-\ud7af"

PAIRED_RUN = re.compile(rf"[{_UNSPACED}]+|[{_HANGUL}]+")
"""Matches runs of Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese, whose terms are
character pairs.

Korean has spaces, but attaches particles to words.
"""

RUN = re.compile(
    r"[^\x00-/:-@\[-`{-©«-±»¿×÷\u2000-\u206f\u20a0-\u20cf\u2190-\u245f\u2500-\u2775\u2794-\u2bff"
    rf"\u3000-\u3004\u3008-\u3020\U0001f1e6-\U0001faff{_UNSPACED}{_HANGUL}]+"
)
"""Matches other runs of text between white space, punctuation and symbols, which words never
contain.

The engine's words consist of letters and digits, including vowel signs. It splits a run further
only at marks and punctuation of single scripts.
"""

WORD = re.compile(f"{RUN.pattern}|{PAIRED_RUN.pattern}")

_BROKEN_LINE = re.compile(rf"(?<=[{_UNSPACED}])[ \t]*\n[ \t]*(?=[{_UNSPACED}])")
"""Matches a line break inside a run: PDFs break every line."""

_LETTER_SPACED = re.compile(
    rf"(?<![{_UNSPACED}])[{_UNSPACED}](?:[ \u3000][{_UNSPACED}]){{2,}}(?![{_UNSPACED}])"
)
_HUMP = re.compile(r"[a-z0-9][A-Z]")
_HUMPED_WORD = re.compile(r"\b[A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9]*")
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")

_QUESTION_WORDS = re.compile(
    "如何|怎么样?|怎样|什么|哪些|哪个|为什么|多少|是否|可以|吗|呢"
    "|どのように|どのような|どうする|どうして|何ですか|ですか|ますか|무엇인가|무엇을|무엇|어떻게|하나요|합니까"
)

_KANA_PAIR = re.compile(r"[\u3041-\u309f]{1,2}")
"""Matches pairs of hiragana: endings and particles."""


class Analysis:
    """The analysis of texts and queries in one language.

    Terms ignore case, accents (ё is е) and the spellings of ``documents.search.spellings``.
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self.analyzer = _analyzer(language)
        self.term_of_run: dict[str, str] = {}
        """Cache of the terms of runs; "" for a run that is not exactly one word."""
        self._content = _analyzer(language, *dict.fromkeys((ENGLISH, RUSSIAN, language)))

    def terms(self, text: str) -> Sequence[str]:
        """Return the terms of a text in order, with repetitions."""
        return self.analyzer.analyze(prepare(text))

    def learn_run(self, run: str) -> str:
        """Return and cache the term of a run that is one word, otherwise ""."""
        terms = self.terms(run) if len(run) <= TERM_BYTES else ()
        if len(self.term_of_run) >= _KNOWN_RUNS:
            self.term_of_run.clear()
        term = self.term_of_run[run] = terms[0] if len(terms) == 1 else ""
        return term

    def content_terms(self, text: str) -> Sequence[str]:
        """Return the terms of a query without stop words and question words; () if none remain."""
        prepared = prepare(_QUESTION_WORDS.sub(" ", fold(clean(text))))
        terms = self._content.analyze(prepared)
        return [term for term in terms if not _KANA_PAIR.fullmatch(term)] or terms


@lru_cache
def analysis_of(language: Language) -> Analysis:
    """Return the shared analysis of a language."""
    return Analysis(language)


def _analyzer(language: Language, *without: Language) -> tantivy.TextAnalyzer:
    """Build an analyzer from words to terms; drops the stop words of ``without``.

    Stemming precedes accent folding because stems depend on accents. Stemmers ignore other scripts.
    """
    builder = (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(TERM_BYTES))
        .filter(tantivy.Filter.lowercase())
    )
    for other in without:
        builder = builder.filter(tantivy.Filter.stopword(other.name)).filter(
            tantivy.Filter.custom_stopword(other.question_words.split())
        )
    return (
        builder.filter(tantivy.Filter.stemmer(language.name))
        .filter(tantivy.Filter.stemmer(RUSSIAN.name))
        .filter(tantivy.Filter.ascii_fold())
        .build()
    )


def prepare(text: str) -> str:
    """Return a text for the analyzer: with one form of each letter, and all spellings.

    Runs become pairs, and camel-case words are followed by their parts.
    """
    text = fold(clean(text))
    if not text.isascii() and PAIRED_RUN.search(text):
        text = without_letter_spaces(text)
        text = PAIRED_RUN.sub(_spaced_pairs, _BROKEN_LINE.sub("", text))
    text = with_spellings(text)
    if _HUMP.search(text):
        text = _HUMPED_WORD.sub(_with_parts, text)
    return text


def without_letter_spaces(text: str) -> str:
    """Join characters with a space between each two: 中 華 民 國."""
    return _LETTER_SPACED.sub(lambda found: "".join(found[0].split()), text)


def pairs(run: str) -> Sequence[str]:
    """Return the overlapping character pairs of a run, or its single character."""
    return [run[n : n + 2] for n in range(len(run) - 1)] or [run]


def clean(text: str) -> str:
    """Compose accents, and replace lone surrogates, which UTF-8 cannot encode, by ``?``."""
    if text.isascii():
        return text
    return normalize("NFC", text.encode(errors="replace").decode())


def term_count(text: str) -> int:
    """Return the approximate number of terms in a text, without analysis."""
    return len(RUN.findall(text)) + sum(map(len, PAIRED_RUN.findall(text)))


def original_offset(text: str, cleaned: str, offset: int) -> int:
    """Return the offset in ``text`` of an offset in ``clean(text)``."""
    if len(cleaned) == len(text):  # nothing was composed
        return offset
    return bisect_left(range(len(text)), offset, key=lambda end: len(clean(text[:end])))


def _spaced_pairs(run: re.Match[str]) -> str:
    return f" {' '.join(pairs(run[0]))} "


def _with_parts(word: re.Match[str]) -> str:
    return f"{word[0]} {' '.join(_HUMPS.findall(word[0]))}"
