"""Unicode normalization whose cost grows with the text, whatever the text."""

import re
import unicodedata
from typing import Literal

PIECE_CHARS = 256
"""Normalizing takes time by the square of a run of combining marks; this bounds the run."""

_PIECE = re.compile(rf"[\x00-\x7f]?[^\x00-\x7f]{{0,{PIECE_CHARS}}}")


def normalize(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Normalize ``text`` piece by piece.

    Pieces begin at ASCII characters, which join nothing before them; only a run of more than 256
    characters without any is cut elsewhere, and may then miss to join two characters there.
    """
    if text.isascii() or unicodedata.is_normalized(form, text):
        return text
    if len(text) <= PIECE_CHARS:
        return unicodedata.normalize(form, text)
    return "".join(unicodedata.normalize(form, piece) for piece in _PIECE.findall(text))
