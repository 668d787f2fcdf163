"""Synthetic documents and queries from a seed: Zipf-distributed English and Russian word forms."""

import json
import random
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

TENANT = "bench"
PAGE_BYTES = 3_000
SECTION_BYTES = 1_800
"""Results in a response of about 2 kB including the envelope."""

QUERIES = 60

_SEED = 20240817
_STEMS = 1_500
_QUERY_RANKS = slice(20, 2_500)
_WORDS_PER_SENTENCE = 14
_SENTENCES_PER_PARAGRAPH = 5

_Syllables = tuple[str, str, tuple[str, ...]]
_ENGLISH: _Syllables = (
    "b c d f g h l m n p r s t v w br cl dr fr gr pl pr sh sl st tr th",
    "a e i o u ea ou ai",
    ("", "s", "ed", "ing", "er", "ly", "ness"),
)
_RUSSIAN: _Syllables = (
    "б в г д ж з к л м н п р с т ф х ц ч ш бр вл гр др кл пр ст тр",
    "а е и о у ы я ю",
    ("", "а", "у", "ом", "ами", "ый", "ого", "ение"),
)


@dataclass(frozen=True, slots=True)
class Corpus:
    """The pages of one document, which are shuffled for others, and queries with results."""

    pages: tuple[str, ...]
    queries: tuple[str, ...]

    @property
    def text_bytes(self) -> int:
        """Bytes of one document's text in UTF-8."""
        return sum(len(page.encode()) for page in self.pages)

    def document(self, doc_id: str) -> dict[str, object]:
        """Build a document from the corpus's pages in a random order that depends on the id."""
        pages = list(self.pages)
        random.Random(f"{_SEED} {doc_id}").shuffle(pages)  # noqa: S311 - not for secrets
        return {
            "doc_id": doc_id,
            "tenant_id": TENANT,
            "title": f"Document {doc_id}",
            "pages": pages,
            "sections": [_section(number, page) for number, page in enumerate(pages[:20], start=1)],
        }

    def write(self, folder: Path, *doc_ids: str) -> None:
        """Write the documents as the service's files."""
        target = folder / TENANT
        target.mkdir(parents=True, exist_ok=True)
        for doc_id in doc_ids:
            content = json.dumps(self.document(doc_id), ensure_ascii=False)
            (target / f"{doc_id}.json").write_text(content, encoding="utf-8")


def make_corpus(pages: int) -> Corpus:
    """Generate pages, alternately English and Russian, and queries of one to four words."""
    chance = random.Random(_SEED)  # noqa: S311 - not for secrets
    vocabularies = [_vocabulary(chance, *_ENGLISH), _vocabulary(chance, *_RUSSIAN)]
    texts = tuple(_page(chance, vocabularies[number % 2]) for number in range(pages))
    queries = tuple(
        " ".join(chance.sample(vocabularies[number % 2][_QUERY_RANKS], k=1 + number // 2 % 4))
        for number in range(QUERIES)
    )
    return Corpus(texts, queries)


def _vocabulary(
    chance: random.Random, consonants: str, vowels: str, endings: tuple[str, ...]
) -> list[str]:
    """Return word forms, most frequent first."""
    heads, hearts = consonants.split(), vowels.split()
    stems: dict[str, None] = {}
    while len(stems) < _STEMS:
        syllables = chance.choice((1, 2, 2, 3))
        stem = "".join(chance.choice(heads) + chance.choice(hearts) for _ in range(syllables))
        stems[stem + chance.choice(heads)[0]] = None
    forms = [stem + ending for stem in stems for ending in endings]
    chance.shuffle(forms)
    return forms


def _page(chance: random.Random, vocabulary: list[str]) -> str:
    weights = list(accumulate(1 / rank for rank in range(1, len(vocabulary) + 1)))
    text, sentences = "", 0
    while len(text.encode()) < PAGE_BYTES:
        words = chance.choices(vocabulary, cum_weights=weights, k=_WORDS_PER_SENTENCE)
        sentences += 1
        edge = "\n\n" if sentences % _SENTENCES_PER_PARAGRAPH == 0 else " "
        text += " ".join(words).capitalize() + "." + edge
    return text.encode()[:PAGE_BYTES].decode(errors="ignore")


def _section(number: int, page: str) -> dict[str, object]:
    end = len(page.encode()[:SECTION_BYTES].decode(errors="ignore"))
    return {
        "section_id": f"s{number}",
        "title": f"Section {number}",
        "page_start": number,
        "page_end": number,
        "start_char": 0,
        "end_char": end,
    }
