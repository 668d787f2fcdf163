"""Number formats of spreadsheets: which values they hide, and how they show the others."""

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache

_NOTHING = re.compile(r'""|\[[^\]]*\]|\s')
"""Parts of number formats that do not show."""
_SECTION = re.compile(r'(?:"[^"]*"|\\.|\[[^\]]*\]|[^";\\[])*+(;|\Z)')
"""For positive numbers, negative ones, zero and text, or for those that fit a condition."""

_CONDITION = re.compile(r"\[(<=|>=|<>|[<>=])\s*(-?\d{1,15}(?:\.\d{1,15})?)\]")
_TOKEN = re.compile(
    r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|(?P<mark>[-+()$€£¥% ])'
    r"|\[[^\]]*\]|_.|\*.|(?P<fraction>(?:[#0?]+ +)?[#0?]+ ?/ ?(?:[#0?]{1,4}|[1-9]\d{0,3}))"
    r"|(?P<digits>[#0?][#0?,.]*)|(?P<other>.)",
    re.DOTALL,
)
_DIGITS = re.compile(r"([#0?]+(?:,[#0?]+)*)(,*)(?:\.([#0?]{0,15}))?(,*)")
_MOST_EXACT = 1e15
_MOST_WRITTEN = 1e21
_MOST_REPEATED = 3
"""Places for a text in its format: 255 of them in each cell could take gigabytes."""


@lru_cache(maxsize=256)
def hides_values(code: str, *, are_numbers: bool) -> bool:
    """Return whether a format shows nothing: ``;;;``, ``;;`` for numbers, ``0;0;0;`` for text."""
    sections = [_NOTHING.sub("", it) for it in sections_of(code)]
    if are_numbers:
        return len(sections) > 2 and not any(sections[:3])
    return len(sections) == 4 and not sections[3]


@lru_cache(maxsize=256)
def sections_of(code: str) -> Sequence[str]:
    """Return the sections of a format; () if it is malformed."""
    sections: list[str] = []
    at = 0
    while found := _SECTION.match(code, at):
        sections.append(found[0].removesuffix(";"))
        if not found[1]:
            return sections
        at = found.end()
    return ()


def shown_text(text: str, code: str) -> str:
    """Return a text as its format shows it: ``"Mr "@``; hidden texts stay."""
    sections = sections_of(code)
    section = sections[-1] if sections else ""
    count = sum(it["other"] == "@" for it in _TOKEN.finditer(section))
    if (len(sections) < 4 and not count) or count > _MOST_REPEATED:
        return text
    parts = []
    for token in _TOKEN.finditer(section):
        if token["digits"] or token["fraction"] or token["other"] not in (None, "@"):
            return text
        parts.append(text if token["other"] else _literal(token))
    return "".join(parts).strip() or text


def shown_number(value: float, code: str) -> str | None:
    """Return a number as its format shows it, or None if the format is not one of digits.

    It is also None for a format that hides all numbers.
    """
    found = _section_for(value, () if hides_values(code, are_numbers=True) else sections_of(code))
    if found is None:
        return None
    section, has_own_sign = found
    digits, around, percents = "", ["", ""], 0
    for token in _TOKEN.finditer(section):
        if (part := token["digits"] or token["fraction"]) and not digits:
            digits = part
        elif part or token["other"]:
            return None
        else:
            percents += token["mark"] == "%"
            around[bool(digits)] += _literal(token)
    text = _written(abs(value), digits, percents) if digits else ""
    if text is None:
        return None
    is_negative = value < 0 and not has_own_sign and bool(text.strip("0.,"))
    return f"{'-' * is_negative}{around[0]}{text}{around[1]}".strip()


def _literal(token: re.Match[str]) -> str:
    return "".join(it for it in token.group(1, 2, 3, 4) if it)


def _section_for(value: float, sections: Sequence[str]) -> tuple[str, bool] | None:
    """Return the section for a number, and whether it shows the sign of negative ones itself."""
    conditions = [_CONDITION.search(it) for it in sections]
    if any(conditions):
        *first, last = zip(sections[:3], conditions, strict=False)
        for section, condition in first:
            if condition is None:
                return None
            if _fits(value, condition):
                return section, _has_sign(section)
        is_shown = last[1] is None or _fits(value, last[1])
        return (last[0], _has_sign(last[0])) if is_shown else None
    if not sections or sections == [""]:
        return None
    if value < 0 and len(sections) > 1:
        return sections[1], True
    return sections[2 if value == 0 and len(sections) > 2 else 0], False


def _has_sign(section: str) -> bool:
    return any(it in _NOTHING.sub("", section) for it in "-(")


def _fits(value: float, condition: re.Match[str]) -> bool:
    limit, kind = float(condition[2]), condition[1]
    return (
        ("=" in kind and value == limit)
        or ("<" in kind and value < limit)
        or (">" in kind and value > limit)
    )


def _written(value: float, pattern: str, percents: int) -> str | None:
    if "/" in pattern:
        return _fraction(value, pattern) if value < _MOST_EXACT else None
    match = _DIGITS.fullmatch(pattern)
    if match is None or not value < _MOST_WRITTEN:
        return None
    whole, decimals = match[1], match[3] or ""
    written = repr(value) if value < _MOST_EXACT else f"{value:.15g}"  # as Excel shows it
    exact = Decimal(written).scaleb(2 * percents - 3 * len(match[2] + match[4]))
    rounded = exact.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    front, _, back = f"{rounded:,f}".partition(".")
    if "," not in whole:
        front = front.replace(",", "").zfill(whole.count("0"))
    optional = len(decimals) - len(decimals.rstrip("#?"))
    while optional and back.endswith("0"):
        back, optional = back[:-1], optional - 1
    if front == "0" and "0" not in whole:
        front = ""
    return f"{front}.{back}" if back else front


def _fraction(value: float, pattern: str) -> str:
    """Return a number such as 1 1/2; its denominator has as many digits as that of the format."""
    before, _, denominator = pattern.replace(" /", "/").replace("/ ", "/").partition("/")
    if denominator.isdecimal() and denominator.strip("0"):
        lower = int(denominator)
        upper = round(Fraction(value) * lower)
    else:
        found = Fraction(value).limit_denominator(10 ** len(denominator) - 1)
        upper, lower = found.numerator, found.denominator
    if " " not in before:
        return f"{upper}/{lower}"
    whole, rest = divmod(upper, lower)
    parts = [str(whole)] if whole or not rest else []
    return " ".join([*parts, f"{rest}/{lower}"] if rest else parts)
