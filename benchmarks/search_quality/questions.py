"""Questions with the pages that answer them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.search_quality.manuals import language_of

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a manual; ``pages`` (1-based) answer it.

    ``kind`` is whole questions, words of the text, inflected or compound words, identifiers, or
    words with a typo.
    """

    manual: str
    kind: str
    question: str
    pages: frozenset[int]

    @property
    def language(self) -> str:
        return language_of(self.manual)


def read_questions(half: str) -> Sequence[Question]:
    """Return the questions of a half: ``tuning`` or ``held_out``."""
    entries = json.loads((_HERE / f"{half}.json").read_text(encoding="utf-8"))
    return [
        Question(it["manual"], it["kind"], it["question"], frozenset(it["pages"])) for it in entries
    ]
