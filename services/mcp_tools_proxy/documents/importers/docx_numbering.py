"""Automatic numbers of headings and lists in Word files, counted in reading order."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from xml.etree.ElementTree import Element

from mcp_tools_proxy.domain.fast_dataclass import dataclass

_PLACEHOLDER = re.compile(r"%([1-9])")

MAX_LEVEL = 8

MAX_LABEL_CHARS = 100
"""Limit for the text around a number."""

_ROMAN = (
    *((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L")),
    *((40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")),
)
_NUMBERS: list[str] = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen",
)
_TENS: list[str] = re.findall(r"\w+", "_ _ twenty thirty forty fifty sixty seventy eighty ninety")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_CHINESE = "〇一二三四五六七八九"
_LETTERS: Mapping[str, str] = {
    "lowerLetter": "abcdefghijklmnopqrstuvwxyz",
    "upperLetter": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "russianLower": "абвгдежзиклмнопрстуфхцчшщэюя",
    "russianUpper": "АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЭЮЯ",
    "decimalEnclosedCircle": "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳",
    "decimalEnclosedCircleChinese": "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳",
    "decimalEnclosedParen": "⑴⑵⑶⑷⑸⑹⑺⑻⑼⑽⑾⑿⒀⒁⒂⒃⒄⒅⒆⒇",
    "decimalEnclosedFullstop": "⒈⒉⒊⒋⒌⒍⒎⒏⒐⒑⒒⒓⒔⒕⒖⒗⒘⒙⒚⒛",
    "ideographTraditional": "甲乙丙丁戊己庚辛壬癸",
    "ideographZodiac": "子丑寅卯辰巳午未申酉戌亥",
    "aiueoFullWidth": "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモ"
    "ヤユヨラリルレロワヲン",
    "irohaFullWidth": "イロハニホヘトチリヌルヲワカヨタレソツネナラムウヰノオクヤマケフコエテアサ"
    "キユメミシヱヒモセス",
    "ganada": "가나다라마바사아자차카타파하",
    "chosung": "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ",
    "thaiLetters": "กขคงจฉชซฌญฎฏฐฑฒณดตถทธนบปผฝพฟภมยรลวศษสหฬอฮ",
    "arabicAlpha": "أبتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "arabicAbjad": "أبجدهوزحطيكلمنسعفصقرشتثخذضظغ",
    "hebrew2": "אבגדהוזחטיכלמנסעפצקרשת",
    "chicago": "*†‡§",
}
_ENGLISH = frozenset({"ordinal", "ordinalText", "cardinalText"})
_ONCE = re.compile("decimalEnclosed|ideograph|aiueo|iroha")
"""Alphabets after whose end Word counts on with digits; others repeat the letter: aa, bb."""

_DIGITS: Mapping[str, str] = {
    "decimalFullWidth": "０１２３４５６７８９",
    "decimalFullWidth2": "０１２３４５６７８９",
    "hindiNumbers": "०१२३४५६७८९",
    "thaiNumbers": "๐๑๒๓๔๕๖๗๘๙",
    "ideographDigital": _CHINESE,
    "japaneseDigitalTenThousand": _CHINESE,
    "koreanDigital": "영일이삼사오육칠팔구",
    "koreanDigital2": "零一二三四五六七八九",
    "taiwaneseDigital": "○一二三四五六七八九",
}
_COUNTING = re.compile("(?:chinese|japanese|taiwanese)Counting(?:Thousand)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLabel:
    """The number or bullet of a paragraph: ``2.2.1``, ``(a)`` or ``-``; "" if it is invisible.

    ``left`` is the indentation of its level, None if it is not stated.
    """

    text: str
    level: int
    list_id: str
    left: int | None
    is_bullet: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListLevel:
    start: int
    number_format: str
    zeros: int
    text: str
    restart: int | None
    style: str
    is_legal: bool
    is_hidden: bool
    left: int | None


class Numbering:
    """The lists of ``numbering.xml``; ``style_lists`` has the list id of each list style."""

    def __init__(
        self, root: Element | None, style_lists: Mapping[str, str], *, is_english: bool = True
    ) -> None:
        self._style_lists = style_lists
        self._is_english = is_english
        self._abstract: dict[str, Element] = {}
        self._lists: dict[str, Element] = {}
        for element in root if root is not None else ():
            if element.tag == "w_abstractNum":
                self._abstract[element.get("w_abstractNumId", "")] = element
            elif element.tag == "w_num":
                self._lists[element.get("w_numId", "")] = element
        self._levels: dict[str, tuple[str, dict[int, _ListLevel], list[int]]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._used: set[str] = set()

    def level_of(self, list_id: str, style: str) -> int | None:
        """Return the level of a list that is linked to a paragraph style."""
        _, levels, _ = self._list(list_id)
        return next((number for number, level in levels.items() if level.style == style), None)

    def next_label(self, list_id: str, number: int) -> ListLabel | None:
        """Count a paragraph of a list, and return its label; None for an unknown list or level."""
        abstract_id, levels, restarted = self._list(list_id)
        level = levels.get(number)
        if level is None:
            return None
        counts = self._counts.setdefault(abstract_id, {})
        if list_id not in self._used:
            self._used.add(list_id)
            for other in restarted:
                counts.pop(other, None)
        counts[number] = counts.get(number, level.start - 1) + 1
        for other in [key for key in counts if key > number]:
            limit = levels[other].restart if other in levels else None
            if limit is None or number < limit:
                del counts[other]
        text = self._text(level, levels, counts)
        return ListLabel(
            text=text,
            level=number,
            list_id=abstract_id,
            left=level.left,
            is_bullet=level.number_format == "bullet",
        )

    def _list(self, list_id: str) -> tuple[str, dict[int, _ListLevel], list[int]]:
        """Return the counters' id, the levels, and those that restart with this list."""
        if list_id not in self._levels:
            self._levels[list_id] = self._read_list(list_id)
        return self._levels[list_id]

    def _read_list(self, list_id: str) -> tuple[str, dict[int, _ListLevel], list[int]]:
        element = self._lists.get(list_id)
        if element is None:
            return "", {}, []
        abstract_id = self._abstract_id(element, set())
        levels: dict[int, _ListLevel] = {}
        abstract = self._abstract.get(abstract_id)
        for child in abstract.iterfind("w_lvl") if abstract is not None else ():
            if (number := _number(child.get("w_ilvl"))) <= MAX_LEVEL:
                levels[number] = _read_level(child)
        restarted = []
        for override in element.iterfind("w_lvlOverride"):
            number = _number(override.get("w_ilvl"))
            own = override.find("w_lvl")
            if own is not None and number <= MAX_LEVEL:
                levels[number] = _read_level(own)
            start = override.find("w_startOverride")
            if start is not None:
                restarted.append(number)
                if number in levels:
                    levels[number] = replace(levels[number], start=_number(start.get("w_val")))
        return abstract_id, levels, restarted

    def _abstract_id(self, element: Element, seen: set[str]) -> str:
        """Return the definition of a list, also through the list style that it links to."""
        abstract_id = _text(element, "abstractNumId")
        abstract = self._abstract.get(abstract_id)
        link = "" if abstract is None else _text(abstract, "numStyleLink")
        linked = self._lists.get(self._style_lists.get(link, ""))
        if linked is None or abstract_id in seen:
            return abstract_id
        return self._abstract_id(linked, {*seen, abstract_id})

    def _text(
        self, level: _ListLevel, levels: Mapping[int, _ListLevel], counts: Mapping[int, int]
    ) -> str:
        if level.number_format == "bullet":
            return "-" if level.text.strip() and not level.is_hidden else ""

        def shown(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            other = levels.get(at)
            if other is None:
                return ""
            is_decimal = (
                level.is_legal and other.number_format not in {"none", "decimalZero"}
            ) or (other.number_format in _ENGLISH and not self._is_english)
            value = counts.get(at, other.start)
            text = format_number(value, "decimal" if is_decimal else other.number_format)
            return text.zfill(other.zeros)

        return "" if level.is_hidden else _PLACEHOLDER.sub(shown, level.text).strip()


def format_number(value: int, number_format: str) -> str:
    """Return a number in one of Word's number formats; decimal for rare ones."""
    if value > 1_000_000 or (value <= 0 and number_format not in {"none", "bullet", "ordinal"}):
        return str(value)
    if number_format in _LETTERS:
        letters = _LETTERS[number_format]
        times, at = divmod(value - 1, len(letters))
        most = 1 if _ONCE.match(number_format) else 10
        return letters[at] * (times + 1) if times < most else str(value)
    if number_format in _DIGITS:
        return "".join(_DIGITS[number_format][int(digit)] for digit in str(value))
    if _COUNTING.fullmatch(number_format):
        return _chinese(value)
    return _WRITTEN.get(number_format, str)(value)


def letters_of(value: int, first: str) -> str:
    """Return a number as columns of sheets are named: z, aa, ab; ``first`` is that of 1."""
    text = ""
    while value > 0:
        value, rest = divmod(value - 1, 26)
        text = chr(ord(first) + rest) + text
    return text


def _read_level(element: Element) -> _ListLevel:
    number_format, zeros = _text(element, "numFmt"), 0
    if number_format == "custom":  # "01, 02, 03, ..."
        formats = (it.get("w_format", "") for it in element.iterfind("w_numFmt"))
        first = next(formats, "").partition(",")[0]
        zeros = len(first) if first.isdecimal() and len(first) < 10 else 0
    elif number_format == "decimalZero":
        zeros = 2
    restart = _text(element, "lvlRestart")
    legal = element.find("w_isLgl")
    picture = element.find("w_lvlPicBulletId")
    vanish = element.find("w_rPr/w_vanish")
    return _ListLevel(
        start=_number(_text(element, "start")),
        number_format="bullet" if picture is not None else number_format or "decimal",
        zeros=zeros,
        text=_text(element, "lvlText")[:MAX_LABEL_CHARS] if picture is None else "-",
        restart=_number(restart) if restart else None,
        style=_text(element, "pStyle"),
        is_legal=legal is not None and legal.get("w_val") not in {"0", "false", "off"},
        is_hidden=vanish is not None and vanish.get("w_val") not in {"0", "false", "off"},
        left=left_of(element.find("w_pPr/w_ind")),
    )


def left_of(indent: Element | None) -> int | None:
    """Return the indentation of a paragraph in twentieths of a point; None if it is not stated."""
    value = "" if indent is None else indent.get("w_start") or indent.get("w_left") or ""
    return int(value) if re.fullmatch(r"-?\d{1,5}", value) else None


def _text(element: Element, name: str) -> str:
    child = element.find(f"w_{name}")
    return "" if child is None else child.get("w_val", "")


def _number(text: str | None) -> int:
    try:
        return int((text or "")[:10])
    except ValueError:
        return 0


def _roman(value: int) -> str:
    if value >= 4000:
        return str(value)
    text = ""
    for amount, letters in _ROMAN:
        times, value = divmod(value, amount)
        text += letters * times
    return text


def _ordinal(value: int) -> str:
    ending = (
        "th" if value % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    )
    return f"{value}{ending}"


def _cardinal(value: int) -> str:
    if value < 20:
        return _NUMBERS[value]
    tens, ones = divmod(value, 10)
    return _TENS[tens] + (f"-{_NUMBERS[ones]}" if ones else "")


def _ordinal_text(value: int) -> str:
    head, dash, last = _cardinal(value).rpartition("-")
    if last in _ORDINALS:
        return f"{head}{dash}{_ORDINALS[last]}"
    return f"{head}{dash}{last.removesuffix('y')}{'ieth' if last.endswith('y') else 'th'}"


def _chinese(value: int) -> str:
    """Return a number as Chinese and Japanese count: 十, 二十一, 一百零三."""
    if value >= 10_000:
        return str(value)
    text, has_gap = "", False
    for power, unit in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = value // power % 10
        if digit:
            text += "零" * has_gap + _CHINESE[digit] + unit
        has_gap = not digit and bool(text)
    return text[1:] if text.startswith("一十") else text


_WRITTEN: Mapping[str, Callable[[int], str]] = {
    "none": lambda _: "",
    "bullet": lambda _: "",
    "upperRoman": _roman,
    "lowerRoman": lambda value: _roman(value).lower(),
    "ordinal": _ordinal,
    "cardinalText": lambda value: _cardinal(value).capitalize() if value < 100 else str(value),
    "ordinalText": lambda value: _ordinal_text(value).capitalize() if value < 100 else str(value),
    "numberInDash": lambda value: f"- {value} -",
    "hex": lambda value: f"{value:X}",
}


_LEAST_INDENT = 100
"""Twentieths of a point; Word indents each level by 283 or more."""


def is_within(item: ListLabel, outer: ListLabel) -> bool:
    """Return whether an item is below another, also one of a list of its own, such as Bullet 2."""
    if item.list_id == outer.list_id or item.left is None or outer.left is None:
        return item.level > outer.level
    return item.left >= outer.left + _LEAST_INDENT


def continues(blank: ListLabel, item: ListLabel) -> bool:
    """Return whether a paragraph with a blank bullet belongs to an item, or is below it."""
    if blank.left is None or item.left is None:
        return blank.level >= item.level
    return blank.left > item.left - _LEAST_INDENT
