"""Decodes files of text: by a byte order mark, the named encoding, or detection (chardet)."""

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from mcp_tools_proxy.documents.importers.base import (
    ImportFailed,
    ImportOptions,
    WarningCode,
    warning,
)
from mcp_tools_proxy.domain.document import ImportWarning

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # starts like UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_AS_BROWSERS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
"""Larger encodings for smaller ones, as files named so use both."""

_OTHERS = (
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"),
    *("utf-7", "cp437", "cp737", "cp775", "cp850", "cp852", "cp855", "cp857", "cp858", "cp860"),
    *("cp861", "cp862", "cp863", "cp864", "cp865", "cp866", "cp869", "cp874", "cp932", "cp949"),
    *("cp950", "cp1125", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256"),
    *("cp1257", "cp1258", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6"),
    *("iso8859-7", "iso8859-8", "iso8859-10", "iso8859-13", "iso8859-14", "iso8859-15"),
    *("iso8859-16", "koi8-r", "koi8-u", "koi8-t", "kz1048", "ptcp154", "johab", "hz", "gb18030"),
    *("big5hkscs", "euc_jp", "euc_jis_2004", "shift_jis_2004", "iso2022_jp", "iso2022_kr"),
    *("mac-roman", "mac-cyrillic"),
    *("mac-greek", "mac-latin2", "mac-turkish", "mac-iceland", "mac-croatian", "mac-romanian"),
    *("cp037", "cp500", "cp1140"),
)


@cache
def _known() -> frozenset[str]:
    """Return the encodings of text; Python's other codecs, such as base64, are none.

    Loading these codecs at every start took 6 ms.
    """
    return frozenset(codecs.lookup(name).name for name in (*_OTHERS, *_AS_BROWSERS))


_DETECTED = (
    *("windows-1250", "windows-1251", "windows-1252", "windows-1253", "windows-1254"),
    *("windows-1255", "windows-1256", "windows-1257", "windows-1258", "cp874"),
    *("iso-8859-2", "iso-8859-5", "iso-8859-6", "iso-8859-7", "iso-8859-8", "iso-8859-16"),
    *("koi8-r", "koi8-u", "cp866", "cp437", "cp850", "cp852"),
    *("mac-roman", "mac-cyrillic"),
    *("cp932", "euc-jp", "gb18030", "big5", "cp949"),
)

_WESTERN = ("cp1252", "iso8859-15", "cp850", "cp437", "mac-roman")
_CENTRAL = ("cp1250", "iso8859-2", "cp852", "iso8859-16")
_CYRILLIC = ("cp1251", "koi8-r", "koi8-u", "cp866", "iso8859-5", "mac-cyrillic")
_BY_LANGUAGE = {
    **dict.fromkeys(("ca", "da", "de", "en", "es", "fi", "fr", "is", "it", "nb"), _WESTERN),
    **dict.fromkeys(("nl", "nn", "no", "pt", "sv"), _WESTERN),
    **dict.fromkeys(("bs", "cs", "hr", "hu", "pl", "ro", "sk", "sl", "sq"), _CENTRAL),
    **dict.fromkeys(("be", "bg", "mk", "ru", "uk"), _CYRILLIC),
    **dict.fromkeys(("et", "lt", "lv"), ("cp1257", "iso8859-13")),
    **dict.fromkeys(("ar", "fa", "ur"), ("cp1256", "iso8859-6")),
    "el": ("cp1253", "iso8859-7"),
    "he": ("cp1255", "iso8859-8"),
    "ja": ("cp932", "euc_jp", "iso2022_jp"),
    "ko": ("cp949",),
    "th": ("cp874",),
    "tr": ("cp1254",),
    "vi": ("cp1258",),
    "zh": ("gb18030", "big5hkscs"),
}
"""Encodings of languages, the likeliest first."""

_CENTRAL_LETTERS = (
    *("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű"),
    *("ăâîşţșț", "čćđšž", "äöüß"),
)
"""Letters that one language has; in a wrong encoding, a text mixes those of several."""

_SAMPLE_BYTES = 100_000
_CLOSE = 0.9
"""Part of the best confidence from which another reading of the file makes the best doubtful."""

_FEWEST_BYTES = 5
"""Bytes beyond ASCII from which a detected encoding can be certain."""

_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_C1 = re.compile(rb"[\x80-\x9f]")
_LIGATURE = re.compile(r"(?<!\d)[¼½](?=[^\W\d_])")
"""A fraction before a letter is Œ or œ in ISO 8859-15."""
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_LATIN_BEFORE = 0x250
_NOT_A_SIGN = re.compile(
    r"[^\x00-\x7f\xa0‘’“”–—…•€£§©®™°±²³·×¼½¾«»]"
    r"|[^\W\d_][‘“•€£§°±×¼½¾«]|[…”°§£][^\W\d_]{2}|[^\W\d_][²³][^\W\d_]|[a-z]–[a-z]"
)
"""A letter, or a sign inside a word."""
_DOS = ("cp850", "cp437", "cp852")
_WINDOWS_MARK = re.compile(rb"[a-z]\x92[a-z]|(?<![A-Za-z\x80-\xff])\x93[A-Za-z]| [\x96\x97] ")
"""An apostrophe in a word, an opening quotation mark, a dash between words."""


class DecodedText(NamedTuple):
    """Text with ``\\n`` line ends and without a byte order mark."""

    text: str
    warnings: tuple[ImportWarning, ...] = ()


def find_encoding(name: str) -> str:
    """Return Python's name of a text encoding, as browsers understand it. Raises ValueError."""
    try:
        found = codecs.lookup(name.strip().strip("\"'")).name
    except (LookupError, ValueError):
        found = ""
    if found not in _known():
        raise ValueError(f'unknown encoding "{name:.40}"; use a name such as windows-1252')
    return _AS_BROWSERS.get(found, found)


def decode_text(
    data: bytes,
    options: ImportOptions,
    *,
    declared: str | None = None,
    language: str | None = None,
) -> DecodedText:
    """Decode a file: a byte order mark wins, then the request, the file itself, and detection.

    ``declared`` is the encoding that the file states, ``language`` its language, which helps to
    detect the encoding; that of the options takes precedence. Raises ImportFailed.
    """
    decoded = _decode(data, options.encoding, declared, options.language or language)
    text = decoded.text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return decoded._replace(text=text)


def _decode(
    data: bytes, named: str | None, declared: str | None, language: str | None
) -> DecodedText:
    for mark, encoding in _MARKS:
        if data.startswith(mark) and (text := _decode_marked(data, encoding)) is not None:
            return DecodedText(text)
    if named:
        return _decode_as_named(data, named)
    if (text := decode_wide(data) or _decode_as_declared(data, declared)) is not None:
        return DecodedText(text)
    try:
        return DecodedText(data.decode())
    except UnicodeDecodeError as error:
        return _decode_almost_utf_8(data, error.start) or _detect(data, language, error.start)


def _decode_marked(data: bytes, encoding: str) -> str | None:
    """Return the text after a byte order mark; None if UTF-32 is UTF-16 after all."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding == "utf-32":
            return None
        name = encoding.upper()
        raise ImportFailed(
            f"starts with the byte order mark of {name} but is not {name} text "
            f"(byte {error.start}): save it as UTF-8"
        ) from error


def _decode_as_named(data: bytes, name: str) -> DecodedText:
    try:
        encoding = find_encoding(name)
    except ValueError as error:
        raise ImportFailed(f"cannot be decoded: {error}; name another encoding, or none") from error
    try:
        return DecodedText(data.decode(encoding))
    except UnicodeDecodeError as error:
        almost = _decode_almost_utf_8(data, error.start) if encoding == "utf-8" else None
        if almost is None and (text := _decode_almost(data, encoding)) is not None:
            almost = DecodedText(text)
        if almost is None:
            raise ImportFailed(
                f"is not {name} text (byte {error.start}); name its real encoding, or none"
            ) from error
        return almost


def _decode_as_declared(data: bytes, declared: str | None) -> str | None:
    if declared is None:
        return None
    with suppress(ValueError):
        encoding = find_encoding(declared)
        # a page that could be read to find this is not UTF-16
        return _decode_almost(data, "utf-8" if encoding.startswith("utf") else encoding)
    return None


def _decode_almost(data: bytes, encoding: str) -> str | None:
    """Return text in which at most one character in a thousand is undefined."""
    text = _strictly(data, encoding)
    if text is None and encoding != "utf-8":
        text = data.decode(encoding, "replace")
        return text if text.count("\ufffd") * 1000 <= len(text) else None
    return text


def decode_wide(data: bytes) -> str | None:
    """Return UTF-16 or UTF-32 text without a byte order mark, or ISO-2022-JP; None if it is not.

    Other text has hardly any control characters, which are half of the bytes of these.
    """
    if b"\x1b$" in data[:_SAMPLE_BYTES] and data.isascii():
        return _strictly(data, "iso2022_jp")
    sample = data[:_SAMPLE_BYTES]
    if len(_NOT_TEXT.findall(sample)) * 50 < len(sample) or len(data) < 4:
        return None
    for encoding in ("utf-32-le", "utf-32-be"):
        if len(data) % 4 == 0 and (text := _strictly(data, encoding)) is not None:
            return text
    even = data[: len(data) // 2 * 2]
    readings = [_strictly(even, encoding) for encoding in ("utf-16-le", "utf-16-be")]
    best = max(readings, key=_plausibility)
    return best if _plausibility(best) > _CLOSE else None


def _strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _plausibility(text: str | None) -> float:
    """Return the part of a text in ASCII and its two main ranges of letters."""
    if not text:
        return 0.0
    sample = text[:2000]
    ranges = Counter(
        -1 if unicodedata.category(c) in {"Cc", "Cn", "Co"} and c not in "\t\n\r\f" else _range(c)
        for c in sample
    )
    ranges.pop(-1, None)
    common = ranges.pop(0, 0) + ranges.pop(0x3000, 0)
    return (common + sum(count for _, count in ranges.most_common(2))) / len(sample)


def _range(c: str) -> int:
    number = ord(c)
    if number < 0x80 or 0x2000 <= number < 0x2100:
        return 0
    if 0x3000 <= number < 0x3100 or number >= 0xFF00:
        return 0x3000
    if 0x3400 <= number < 0xA000:
        return 0x3400
    if 0xAC00 <= number < 0xD800:
        return 0xAC00
    return number & ~0xFF


def _decode_almost_utf_8(data: bytes, at: int) -> DecodedText | None:
    """Return UTF-8 text with a few bytes of windows-1252, as of two joined files."""
    text = data.decode("utf-8", "replace")
    strange = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    letters = len(data) - len(data.translate(None, _LEAD_BYTES))
    if letters < 10 * strange:
        return None
    message = f"some bytes are not UTF-8 (the first is {at})"
    return DecodedText(
        data.decode("utf-8", _STRAY_BYTES), (warning(WarningCode.GUESSED_ENCODING, message),)
    )


_LEAD_BYTES = bytes(range(0xC2, 0xF5))
_STRAY_BYTES = "mcp-tools-proxy-stray-bytes"


def _decode_stray(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(_STRAY_BYTES, _decode_stray)


def _detect(data: bytes, language: str | None, at: int) -> DecodedText:
    if len(_NOT_TEXT.findall(data[:_SAMPLE_BYTES])) * 200 > len(data[:_SAMPLE_BYTES]):
        raise ImportFailed("is not text: it has many control characters; export it as PDF or text")
    if (windows := _with_signs_only(data)) is not None:
        return DecodedText(windows)
    readings = _readings(data, language)
    if not readings:
        raise ImportFailed(f"has an unknown encoding (byte {at}): name it, or save it as UTF-8")
    encoding, text, confidence = readings[0]
    others = [seen for _, other, seen in readings if other != text]
    warnings: tuple[ImportWarning, ...] = ()
    is_short = len(_NOT_ASCII.findall(data[:_SAMPLE_BYTES])) < _FEWEST_BYTES
    if max(others, default=0.0) > confidence * (0 if is_short else _CLOSE):
        message = f"its encoding is not certain; it was read as {encoding}"
        warnings = (warning(WarningCode.GUESSED_ENCODING, message),)
    if encoding == "cp1252" and "¤" in text and not _C1.search(data):
        text = text.replace("¤", "€")  # ISO 8859-15 has the euro sign there
    if encoding == "cp1252" and _LIGATURE.search(text) and not _C1.search(data):
        text = _LIGATURE.sub(lambda found: "Œ" if found[0] == "¼" else "œ", text)
    return DecodedText(text, warnings)


def _readings(data: bytes, language: str | None) -> Sequence[tuple[str, str, float]]:
    """Return encodings with the text and the confidence, the best first."""
    try:
        import chardet  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportFailed(
            "is not UTF-8 text: save it as UTF-8, or install mcp-tools-proxy[formats]"
        ) from error
    sample = _sample(data)
    found = chardet.detect_all(sample, include_encodings=_DETECTED, no_match_encoding="cp1252")
    readings: list[tuple[str, str, float]] = []
    for each in found:
        if (name := each["encoding"]) is None:
            continue
        encoding = find_encoding(name)
        text = _without_controls(data, encoding)
        if text is not None and not _mixes_scripts(sample.decode(encoding, "ignore")):
            readings.append((encoding, text, each["confidence"]))
    readings = _likeliest_central(_without_dos(readings, data))
    preferred = _BY_LANGUAGE.get((language or "").partition("-")[0].lower(), ())
    ranks = {encoding: rank for rank, encoding in enumerate(preferred)}
    in_language = [reading for reading in readings if reading[0] in ranks]
    if in_language:
        return in_language
    for encoding in (*preferred, "cp1252") if preferred or not readings else ():
        if (text := _strictly(data, encoding)) is not None:
            return [(encoding, text, 1.0 if preferred else 0.0), ("", "", 0.0)]
    return readings


def _without_controls(data: bytes, encoding: str) -> str | None:
    """Return the text, or None if it would have the control characters of ISO 8859."""
    has_controls = encoding.startswith("iso8859") and _C1.search(data)
    return None if has_controls else _strictly(data, encoding)


def _with_signs_only(data: bytes) -> str | None:
    """Return text of Windows whose only characters beyond ASCII are signs; None for others.

    Detection needs letters. In DOS and Mac encodings, these signs are letters or frames.
    """
    text = _strictly(data, "cp1252")
    if text is None or _NOT_A_SIGN.search(text) or text.count("”") > text.count("“"):
        return None
    return text


def _without_dos(
    readings: list[tuple[str, str, float]], data: bytes
) -> list[tuple[str, str, float]]:
    """Leave out DOS and Mac if the likeliest, DOS, would have letters as quotes and dashes."""
    if readings and readings[0][0] in _DOS and _WINDOWS_MARK.search(data):
        return [reading for reading in readings if reading[0] not in {*_DOS, "mac-roman"}]
    return readings


def _likeliest_central(
    readings: list[tuple[str, str, float]],
) -> list[tuple[str, str, float]]:
    """Leave out Central European readings with fewer letters of one language than the best."""
    letters = {name: _most_of_one_language(text) for name, text, _ in readings if name in _CENTRAL}
    most = max(letters.values(), default=0)
    return [reading for reading in readings if letters.get(reading[0], most) == most]


def _most_of_one_language(text: str) -> int:
    counts = Counter(c for c in text[:_SAMPLE_BYTES].lower() if not c.isascii())
    return max(sum(counts[letter] for letter in letters) for letters in _CENTRAL_LETTERS)


def _sample(data: bytes) -> bytes:
    first = _NOT_ASCII.search(data)
    start = max(0, (first.start() if first else 0) - 1000)
    sample = data[start : start + _SAMPLE_BYTES]
    is_cut = len(data) > start + _SAMPLE_BYTES
    return (sample[: sample.rfind(b"\n") + 1] or sample) if is_cut else sample


def _mixes_scripts(text: str) -> bool:
    """Return whether most words with foreign letters are half Latin, as of a wrong encoding."""
    mixed = whole = 0
    for word in re.findall(r"[^\W\d_]+", text[:20_000]):
        if word.isascii() or word[0] >= "\u2e80":
            continue
        foreign = sum(ord(c) > _LATIN_BEFORE for c in word)
        mixed += 0 < foreign < max(len(word), 3)
        whole += foreign == 0 or (foreign == len(word) and foreign > 2)
    return mixed > whole
