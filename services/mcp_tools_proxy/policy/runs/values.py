"""Compares values of calls with a task's words and with identifiers that were read.

Values are compared after NFKC and case folding. Only keyed hashes are kept; each run has its own
key.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

WORD_BYTES = 6
VALUE_BYTES = 8

_DOTS = str.maketrans({"\u3002": ".", "\uff61": "."})
"""Full stops that browsers accept in host names, and NFKC does not change."""

_EDGES = "\"'`\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb()[]{}<>.,;:!?\u2026*_~|\u00a1\u00bf"
"""Punctuation around a word. Signs that are part of an account or path stay: ``- + @ # / \\ =``."""
_CURRENCY = "$\u20ac\u00a3\u00a5"
_POSSESSIVE = re.compile("['\u2019]s$")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_WHOLE = re.compile(r"(\d+)\.0+")

_UNSPACED = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1780-\u17ff"
"""Scripts written without spaces: kana, Han, Thai, Lao, Khmer."""
_PARTS = re.compile(f"[{_UNSPACED}]|[^{_UNSPACED}]+")


def normal_text(value: object) -> str | None:
    """Return a text or number in the form in which values are compared; None for other types."""
    match value:
        case str():
            text = unicodedata.normalize("NFKC", value).casefold().translate(_DOTS)
            return " ".join(unicodedata.normalize("NFKC", text).split())
        case bool():
            return None
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case _:
            return None


def words_of(normal: str) -> list[str]:
    """Return the words of a normal text, without the punctuation around them.

    An address, URL or account number without spaces is one word, so ``a.com`` is not a word of
    ``a.com.evil.io``. Scripts without spaces have one word per character.
    """
    words = []
    for spaced in normal.split():
        for part in _PARTS.findall(spaced) if not spaced.isascii() else (spaced,):
            word = part.strip(_EDGES)
            word = _POSSESSIVE.sub("", word).strip(_CURRENCY)
            if _GROUPED.fullmatch(word):
                word = word.replace(",", "")
            if whole := _WHOLE.fullmatch(word):
                word = whole[1]
            if word:
                words.append(word)
    return words


def word_hashes(key: bytes, normal: str) -> bytes:
    """Return the hashes of a text's words in order, ``WORD_BYTES`` each."""
    return b"".join(
        blake2b(word.encode(errors="surrogatepass"), digest_size=WORD_BYTES, key=key).digest()
        for word in words_of(normal)
    )


def value_hash(key: bytes, normal: str) -> bytes:
    """Return the hash of a whole value."""
    return blake2b(
        normal.encode(errors="surrogatepass"), digest_size=VALUE_BYTES, key=key, person=b"value"
    ).digest()


def has_words(task: bytes, wanted: bytes) -> bool:
    """Return whether hashes of words are a contiguous part of a task's, at a word's boundary."""
    if not wanted:
        return False
    place = task.find(wanted)
    while place >= 0:
        if place % WORD_BYTES == 0:
            return True
        place = task.find(wanted, place + 1)
    return False


def scalars(value: object) -> Iterator[object]:
    """Yield the texts and numbers in a JSON value, without the keys of objects."""
    stack = [value]
    while stack:
        match stack.pop():
            case Mapping() as members:
                stack += reversed(list(members.values()))
            case list() | tuple() as items:
                stack += reversed(items)
            case bool() | None:
                continue
            case it:
                yield it


_STEP = re.compile(r"([^\[\].]*)((?:\[\])*)")


def at_path(value: object, path: str) -> Iterator[object]:
    """Yield the texts and numbers at a path such as ``id``, ``orders[].id`` or ``[].name``.

    ``[]`` stands for each item of a list. A list at the end of a path is read whole.
    """
    found: list[object] = [value]
    for step in path.split("."):
        match = _STEP.fullmatch(step)
        if match is None:
            return
        key, lists = match.groups()
        if key:
            found = [it[key] for it in found if isinstance(it, Mapping) and key in it]
        for _ in range(len(lists) // 2):
            found = [item for it in found if isinstance(it, list | tuple) for item in it]
    for it in found:
        if isinstance(it, Mapping):
            continue
        yield from scalars(it)


_EMAIL = r"[^\s@<>()\[\]\",;:]+@[^\s@<>()\[\]\",;:]+\.[^\s@<>()\[\]\",;:]+"
_URL = r"[a-z][a-z0-9+.-]{1,30}:(?://)?[^\s<>\"]+"
_HOST = r"(?:[a-z0-9-]{1,63}\.)+[a-z]{2,24}(?:[:/?#][^\s<>\"]*)?"
_IBAN = r"\b[a-z]{2}\d{2}(?: ?[a-z0-9]{2,4}){3,8}\b"
_DIGITS = r"\+?\d(?:[ -]?\d){7,30}"
_EMBEDDED = re.compile(f"{_EMAIL}|{_URL}|{_HOST}|{_IBAN}|{_DIGITS}")
_FILE = re.compile(
    r"[^/:?#]+\.(?:pdf|docx?|xlsx?|pptx?|txt|csv|tsv|md|json|xml|ya?ml|png|jpe?g|gif|svg|log|odt|ods)"
)


def embedded_values(texts: Iterable[object]) -> Iterator[str]:
    """Yield the links, addresses and account numbers inside texts, in normal form."""
    for it in texts:
        normal = normal_text(it)
        if normal is None:
            continue
        for found in _EMBEDDED.findall(normal):
            value = found.strip(_EDGES)
            if value and not _FILE.fullmatch(value):
                yield value
