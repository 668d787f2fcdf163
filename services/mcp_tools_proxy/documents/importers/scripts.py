"""Superscripts and subscripts in plain text: ``10^3``, ``H_2O``, ``1st``, ``word [1]``."""

import re

_LETTERS_RAISED = re.compile(
    "st|nd|rd|th|ers?|res?|es?|[èe]me|nde?|de|te|ste|[ºª®©™℠]|[oa]s?|mes?|lles?|tm|sm",
    re.IGNORECASE,
)
"""Superscripts that belong to a number or an abbreviation: 1st, 2e, nº, Mme, Acme™."""

_UNIT = re.compile(
    "[mcdknpµμuh]?m|ft|in|yd|mi|[mnµμ]?s|min|sec|hr?|d|day|[mk]?g|t|[mcd]?l|k?mol|rad|deg|m?bar|"
    "[hkmg]?pa|px|pt|inch(?:es)?|foot|feet|yards?|miles?|(?:centi|kilo|milli)?met(?:er|re)s?|"
    "seconds?",
    re.IGNORECASE,
)

_NOTE = re.compile(r"\d{1,3}(?:\s*[,–-]\s*\d{1,3})*")
_BRACKETED_NOTE = re.compile(r"\[\w+\](?:\s*,?\s*\[\w+\])*")
_SHORT_FORM = re.compile(r"[-−–+±]?[\w.,′']+[-−+]?|[-−+′']")
_LAST_WORD = re.compile(r"[^\W\d_]+$")
_MAX_CHARS = 40
"""Longer text was set small for its looks."""


def spell_script(mark: str, content: str, *, before: str, after: str = "") -> str:
    """Return a superscript (``mark`` is ``^``) or subscript (``_``) as text.

    ``before`` and ``after`` are the texts around it. Ordinals stay letters, and a number after a
    word is a footnote mark.
    """
    text = content.strip()
    last = before[-1:]
    if not text or len(text) > _MAX_CHARS or not (last.isalnum() or last in ")]}|°'′.,;:!?\"”’»%"):
        return content
    if mark == "_":
        return f"_{_grouped(text)}" if last.isalnum() or last in ")]}" else content
    if text in {"o", "0", "º", "°"} and after[:1] in {"C", "F"} and last.isdigit():
        return "°"
    if _LETTERS_RAISED.fullmatch(text) and _takes_letters(before):
        return content
    if _NOTE.fullmatch(text) and not _takes_exponent(before):
        return f" [{text}]"
    if _BRACKETED_NOTE.fullmatch(text):
        return f" {text}"
    if not any(c.isalnum() or c in "+-−" for c in text):  # *, †, ‡
        return content
    return f"^{_grouped(text)}"


def _grouped(text: str) -> str:
    return text if _SHORT_FORM.fullmatch(text) else f"({text})"


def _takes_letters(before: str) -> bool:
    """Return whether an ordinal can follow: a number, a Roman numeral, or a letter of a word."""
    return before[-1:].isalnum()


def _takes_exponent(before: str) -> bool:
    """Return whether a raised number is an exponent: after a number, variable or unit."""
    if before[-1:] in ")]}|":
        inner = _LAST_WORD.search(before.rstrip(")]}|"))
        return inner is None or len(inner[0]) < 4
    if not before[-1:].isalnum():
        return False
    word = _LAST_WORD.search(before)
    return word is None or len(word[0]) <= 2 or _UNIT.fullmatch(word[0]) is not None
