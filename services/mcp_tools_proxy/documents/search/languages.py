"""The languages whose words are cut to stems, and which of them a document is written in."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import tantivy

from mcp_tools_proxy.domain.document import Document

_SAMPLE_CHARS = 12_000
"""Characters that the language is detected from: 10 ms for all languages."""

_SAMPLES = 24
"""Places of the document that they come from: a translated manual has parts in English."""

_LEAST_SHARE = 0.1
"""Least share of the words that has to be stop words of the language. English has a third."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language: its name for the engine, and words that ask, which its stop words lack."""

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
"""By primary subtag of BCP 47. Words in Cyrillic are cut to Russian stems in every language."""


def language_of(document: Document) -> Language:
    """Return the language that a document is analysed in: the declared one, else the detected."""
    return declared_language(document.language) or detect_language(document.pages)


def declared_language(tag: str | None) -> Language | None:
    """Return the language of a tag of BCP 47; None if it is not given, or not one of these."""
    return _BY_TAG.get((tag or "").partition("-")[0].lower())


def language_named(name: str) -> Language:
    """Return the language of the engine's name; English for what is none."""
    return next((language for language in (*_OTHERS, RUSSIAN) if language.name == name), ENGLISH)


def detect_language(texts: Sequence[str]) -> Language:
    """Return the language of texts by their stop words: English where no other is clearer.

    Of texts in Cyrillic it is that of their words in Latin letters; those in Cyrillic are cut to
    Russian stems in every language.
    """
    sample = _sample(texts)
    total = len(_words().analyze(sample))
    if not total:
        return ENGLISH
    shares = {
        language: 1 - len(_without_stop_words(language).analyze(sample)) / total
        for language in (ENGLISH, *_OTHERS)
    }
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] >= _LEAST_SHARE else ENGLISH


def _sample(texts: Sequence[str]) -> str:
    """Return pieces of texts from all over a document."""
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
