"""Compares values of calls with a task's words and with identifiers that were read.

Values are compared after NFKC and case folding. Only keyed hashes are kept; each run has its own
key. An address, URL or account number is compared as a whole: ``a.com`` is not a word of
``a.com.evil.io``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from ipaddress import IPv6Address
from itertools import islice

from mcp_tools_proxy.wire.text import HIDDEN_IN_WORDS, normalize

WORD_BYTES = 6
VALUE_BYTES = 8

MAX_TASK_WORDS = 4_000
"""Maximum words of all task texts of a run. Words count twice in a text with punctuation that can
change their meaning."""

MAX_VALUE_CHARS = 1_024
"""Maximum characters of an identifier; longer texts are not identifiers."""

MAX_EMBEDDED = 200
"""Maximum different links, addresses and account numbers of a call that are looked up."""

_FOLDED = re.compile("[^\u00df\u1e9e\u03c2]+")
"""Letters to fold. Case folding would make straße.de equal to strasse.de, another domain; the same
holds for the Greek final sigma (the deviations of IDNA 2008)."""


def _folded(text: str) -> str:
    normal = normalize("NFKC", text)
    if normal.isascii():
        return normal.lower()
    return normalize("NFKC", _FOLDED.sub(lambda it: it[0].casefold(), normal))


_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])|[0-9]{2}-[0-9]{2}-[0-9]{4}(?![0-9])"
_IBAN = (
    r"(?<![a-z0-9])[a-z]{2}[0-9]{2}"
    r"(?: [a-z0-9]{4}(?![a-z0-9])){2,7}(?: [a-z0-9]{1,4}(?![a-z0-9]))?"
)
_GROUPS = rf"(?<![\w+])\+?[0-9]++(?:[ -](?!{_DATE})[0-9]++)+"
_ACCOUNT = re.compile(f"(?P<iban>{_IBAN})|{_DATE}|(?P<groups>{_GROUPS})")

_IN_GROUPS = re.compile("[0-9][ -][0-9a-z]")

_ACCOUNT_DIGITS = 8
"""Minimum digits of an account or telephone number."""
_LEAST_ACCOUNT = 10 ** (_ACCOUNT_DIGITS - 1)


def _with_joined_accounts(normal: str) -> str:
    """Return a text whose account numbers have no spaces and hyphens between their groups.

    Otherwise the groups would be words, and a part of an account would be a value of the task.
    """
    parts, end = [], 0
    while (match := _ACCOUNT.search(normal, end)) is not None:
        parts.append(normal[end : match.start()])
        found, groups = match[0], match["groups"]
        if match["iban"] is not None:
            found, joined = _iban_at_start(found)
            parts.append(joined)
        elif groups is not None:
            joined = groups.replace(" ", "").replace("-", "")
            parts.append(joined if len(joined) >= _ACCOUNT_DIGITS else groups)
        else:
            parts.append(found)
        end = match.start() + len(found)
    return "".join((*parts, normal[end:]))


def _iban_at_start(groups: str) -> tuple[str, str]:
    """Return the IBAN at the start of groups, with and without spaces, or the first group."""
    parts = groups.split(" ")
    for end in range(len(parts), 3, -1):
        joined = "".join(parts[:end])
        if _is_iban(joined):
            return " ".join(parts[:end]), joined
    return parts[0], parts[0]


_DIGITS_OF_LETTERS = {ord(it): str(int(it, 36)) for it in "abcdefghijklmnopqrstuvwxyz"}


def _is_iban(text: str) -> bool:
    if not 15 <= len(text) <= 34:
        return False
    return int((text[4:] + text[:4]).translate(_DIGITS_OF_LETTERS)) % 97 == 1


def normal_text(value: object) -> str | None:
    """Return a text or number in the form in which values are compared; None for other types."""
    match value:
        case str() if value.isalnum() and value.isascii():  # nearly all identifiers
            return value.lower()
        case str():
            if value.isascii() and value.isprintable() and " " not in value:
                normal = value.lower()
            else:
                normal = " ".join(_folded(value).split())
            if _IN_GROUPS.search(normal) is None:
                return normal
            return _with_joined_accounts(normal)
        case bool():
            return None
        case int():
            # str() refuses more than 4,300 digits
            return str(value) if value.bit_length() <= 256 else hex(value)
        case float():
            return normal_text(int(value)) if value.is_integer() else repr(value)
        case _:
            return None


_ADDRESS_SIGN = re.compile(r"[@./\\]")


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
"""Control characters; some of them would separate the groups of an account number."""


def is_disguised(value: str, normal: str) -> bool:
    """Return whether a value only looks like its normal form, such as ``ｂob@a.com``.

    A server may read it differently, so nothing vouches for it. The user's own words may be
    written so.
    """
    if value.isascii():
        return _CONTROL.search(value) is not None
    if normal.isascii():
        return True
    has_sign = _ADDRESS_SIGN.search(normal) is not None
    return has_sign and normalize("NFKC", value) != normalize("NFC", value)


_QUOTES = "\"'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_EDGES = f"{_QUOTES}()[]{{}}<>.,;:!?\u2026*_~|`\u00a1\u00bf"
"""Punctuation around a word in prose and Markdown."""
_AFFIXES = re.compile(
    "^[$\u20ac\u00a3\u00a5](?=[0-9])|(?<=[0-9])[$\u20ac\u00a3\u00a5]$|['\u2019]s$"
)
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_DECIMAL = re.compile(r"[0-9]+\.[0-9]{1,2}")
"""``10.00``, but not ``10.000``: in German, that is ten thousand."""

_UNSPACED = (
    "\u3041-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1780-\u17ff"
)
"""Scripts written without spaces: kana, Han, Thai, Lao, Khmer."""
_HANGUL = "\uac00-\ud7a3"
"""Korean has spaces, but no space between a foreign word and its particle."""
_MARKS = "\u3001\u3002\u3008-\u3011\u3014-\u301b\u30fb"
_SEGMENT = re.compile(f"[{_MARKS}]|[^{_MARKS}]+")
_PIECE = re.compile(f"[{_UNSPACED}]|[{_HANGUL}]+|[^{_UNSPACED}{_HANGUL}]+")
_TOUCHING = re.compile(
    rf"[{_UNSPACED}{_HANGUL}][.@/\\_%+=&#~-]|[.@/\\_%+=&#~-][{_UNSPACED}{_HANGUL}]"
)


def _pieces(spaced: str) -> Iterable[str]:
    """Yield the words of a text without spaces.

    An address with letters of such a script stays whole, or ``え.com`` would be a word of
    ``例え.com``.
    """
    if spaced.isascii():
        yield spaced
        return
    for segment in _SEGMENT.findall(spaced):
        if _ADDRESS_SIGN.search(segment) and _TOUCHING.search(segment):
            yield segment
        else:
            yield from _PIECE.findall(segment)


def _written_word(piece: str) -> str:
    """Return a word as an argument has it.

    Only quotes and the punctuation of sentences are removed: ``*``, ``~`` or a leading ``.`` change
    a path's meaning, and ``..`` at its end.
    """
    word = piece.strip(_QUOTES).rstrip(",;" + _QUOTES)
    if word.endswith(".") and not word.endswith(("..", "/.", "\\.")):
        word = word[:-1]
    return word.rstrip(_QUOTES)


def _prose_word(piece: str) -> str:
    """Return a word of a task, without all punctuation around it.

    ``../x`` and ``~/x`` are other paths than ``/x``.
    """
    word = piece.strip(_EDGES)
    if word.startswith(("/", "\\")):
        before = piece[: piece.index(word)]
        word = before[len(before.rstrip(".~")) :] + word
    word = _AFFIXES.sub("", word)
    if _GROUPED.fullmatch(word):
        word = word.replace(",", "")
    return word.rstrip("0").rstrip(".") if _DECIMAL.fullmatch(word) else word


def words_of(normal: str) -> Iterator[str]:
    """Yield the words of an argument in normal form.

    An address, URL or account number is one word. Scripts without spaces have one word per
    character.
    """
    for spaced in normal.split(" "):
        for piece in _pieces(spaced):
            if word := _written_word(piece):
                yield word


GAP = bytes(WORD_BYTES)
"""Separates texts in the hashes of tasks."""


def task_hashes(key: bytes, task: str) -> bytes:
    """Return the hashes of a task's words in order, ``WORD_BYTES`` each; empty without words.

    They are there twice if punctuation makes a difference: as written and without it. Of a text
    that is too long, there is one word more than can be kept: NFKC makes 65,000 words of 16,384
    characters.
    """
    normal, most = normal_text(task) or "", MAX_TASK_WORDS + 1
    written = tuple(islice(words_of(normal), most))
    pieces = (piece for spaced in normal.split(" ") for piece in _pieces(spaced))
    prose = tuple(islice(filter(None, map(_prose_word, pieces)), most))
    return GAP.join(_hashes(key, words) for words in dict.fromkeys((written, prose)) if words)


def _hashes(key: bytes, words: Iterable[str]) -> bytes:
    return b"".join(
        blake2b(word.encode(errors="surrogatepass"), digest_size=WORD_BYTES, key=key).digest()
        for word in words
    )


def value_hash(key: bytes, normal: str) -> bytes:
    """Return the hash of a whole value."""
    return blake2b(
        normal.encode(errors="surrogatepass"), digest_size=VALUE_BYTES, key=key, person=b"value"
    ).digest()


def has_words(task: bytes, wanted: bytes) -> bool:
    """Return whether hashes of words are a contiguous part of a task's, at a word's boundary."""
    return bool(wanted) and _place_of(wanted, task, 0) >= 0


def _place_of(wanted: bytes, task: bytes, begin: int) -> int:
    """Return the first place of hashes of words in a task's from ``begin``; -1 without one."""
    place = task.find(wanted, begin)
    while place % WORD_BYTES and place >= 0:
        place = task.find(wanted, place + 1)
    return place


def is_of_task(key: bytes, task: bytes, normal: str) -> bool:
    """Return whether the words of an argument in normal form are a contiguous part of a task's.

    Ends at the first word that does not continue the part: an argument can have 16,000 words. A
    search from the start for each word took 50 ms for 4,000 equal words.
    """
    part, place = b"", 0
    for word in words_of(normal):
        hashed, end = _hashes(key, (word,)), place + len(part)
        part += hashed
        if task[end : end + WORD_BYTES] != hashed:
            place = _place_of(part, task, place)
            if place < 0:
                return False
    return bool(part)


def scalars(value: object, *, keys: bool = False) -> Iterator[object]:
    """Yield the texts and numbers in a JSON value; the keys of objects only with ``keys``."""
    stack = [value]
    while stack:
        match stack.pop():
            case Mapping() as members:
                stack += reversed(list(members.values()))
                if keys:
                    yield from members
            case list() | tuple() as items:
                stack += reversed(items)
            case bool() | None:
                continue
            case it:
                yield it


_STEP = re.compile(r"([^\[\].]*)((?:\[\])*)")


def at_path(value: object, path: str) -> Iterator[object]:
    """Yield the texts and numbers at a path such as ``id``, ``orders[].id`` or ``[].name``.

    ``[]`` stands for each item of a list. A list at the end of a path is read whole, without
    objects in it.
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
    yield from _flat(found)


def _flat(values: list[object]) -> Iterator[object]:
    stack = values[::-1]
    while stack:
        match stack.pop():
            case list() | tuple() as items:
                stack += reversed(items)
            case Mapping() | bool() | None:
                continue
            case it:
                yield it


_DELIMITERS = str.maketrans(dict.fromkeys('<>"\u201c\u201d\u201e\u00ab\u00bb', " "))
_SIGN = re.compile(r"(?<=[^ ])[.@:](?=[^ ])|(?<![a-z0-9])(?=[a-z]*[0-9])[a-z0-9]{8}|//")
"""Signs of an address within a word, or enough letters and digits of an account."""
_URL_BEGIN = re.compile(
    r"(?<![a-z0-9+.-])(?:[a-z][a-z0-9+.-]{0,30}://|"
    r"(?:mailto|tel|sms|smsto|callto|sips?|xmpp|skype|whatsapp|data|file|javascript|vbscript|"
    r"magnet|bitcoin|ethereum):)"
)
_LIST_SIGNS = re.compile(r"[,;()\[\]{}|'\u2019]+")
_HOST = re.compile(r"(?<![\w-])(?<![\w-]\.)[\w-]++(?:\.[\w-]++)+")
_AFTER_HOST = re.compile(r"[/:?#\\]")
_IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_IPV6 = re.compile(
    r"(?<![\w)\]])\[(?:ipv6:)?([0-9a-f:.]{2,45})(?:%[^\]]{1,64})?\]([^,;()\[\]{}|'\u2019]*)"
)
"""A host in brackets, and what follows it; ``a[::2]`` is a program's."""
_NUMBER = re.compile(r"(?<!\w)\+?[0-9]{8,}(?!\w)|(?<![a-z0-9])(?=[a-z]*[0-9])[a-z0-9]{15,}")
"""Accounts and telephone numbers; IBANs, wallets and keys."""
_FILE = re.compile(
    r".+\.(?:pdf|docx?|xlsx?|pptx?|txt|csv|tsv|json|xml|ya?ml|png|jpe?g|gif|svg|log|odt|ods)"
)
"""Names of files; none of these endings is a top-level domain."""


_WIDE = str.maketrans(
    "\uff08\uff09\uff0c\uff1a\uff1b\uff01\uff1f\uff3b\uff3d\uff5b\uff5d", "(),:;!?[]{}"
)
"""Punctuation of Chinese and Japanese prose, which disguises no address beside it."""
_WIDE_DOT = re.compile("(?<=[0-9A-Za-z])[\u3002\uff61](?=[0-9A-Za-z])")
"""A full stop that browsers accept in host names; NFKC does not change it."""


def embedded_values(values: Iterable[object]) -> Iterator[str]:
    """Yield the links, addresses and account numbers in values, for look-ups of their origins.

    Integers with as many digits as an account number are looked up as well. After ``MAX_EMBEDDED``
    values, the next text is yielded whole: it has no origin but ``text``.
    """
    known: set[str] = set()
    for value in values:
        text = value if isinstance(value, str) else _account(value)
        if text is None:
            continue
        for found in (text,) if isinstance(value, int | float) else _embedded(text):
            if found in known:
                continue
            if len(known) == MAX_EMBEDDED:
                yield text
                return
            known.add(found)
            yield found


def _account(value: object) -> str | None:
    """Return an integer as an account number; None for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 != 0:
        return None
    return normal_text(value) if abs(value) >= _LEAST_ACCOUNT else None


def _embedded(text: str) -> Iterator[str]:
    if not text.isascii():
        plain: list[str] = []
        for token in text.split():
            written = token.translate(_WIDE)
            shown = _WIDE_DOT.sub(".", HIDDEN_IN_WORDS.sub("", written))
            normal = _folded(shown)
            if (shown != written or is_disguised(written, normal)) and any(_addresses(normal)):
                yield token
            else:
                plain.append(normal)
        text = " ".join(plain)
    normal = (normal_text(text) or "").translate(_DELIMITERS)
    end = 0
    while (sign := _SIGN.search(normal, end)) is not None:
        start = normal.rfind(" ", end, sign.start()) + 1 or end
        end = normal.find(" ", sign.start())
        end = len(normal) if end < 0 else end
        yield from _addresses(normal[start:end])


def _addresses(normal: str) -> Iterator[str]:
    """Yield the links, addresses and account numbers in a text without spaces."""
    for piece in _pieces(normal):
        rest = piece
        if (url := _URL_BEGIN.search(piece)) is not None:
            yield piece[url.start() :].strip(_EDGES)
            rest = piece[: url.start()]
        if "[" in rest and ":" in rest:
            hosts = [it for it in _IPV6.finditer(rest) if _is_ipv6(it[1])]
            for host in hosts:
                yield rest[host.start() : host.start(2)] + host[2].rstrip(_EDGES)
            for host in reversed(hosts):
                rest = f"{rest[: host.start()]},{rest[host.end() :]}"
        for part in _LIST_SIGNS.split(rest):
            word = part.strip(_EDGES)
            if "@" in word:
                yield from _mail_address(word)
            else:
                yield from _hosts_and_numbers(word)


def _mail_address(word: str) -> Iterator[str]:
    """Yield the address in a word such as ``cc:bob@a.com``, and any host before it."""
    before, _, domain = word.partition("@")
    place = max(before.rfind(":"), before.rfind("=")) + 1
    if before[place:] and domain:
        yield word[place:]
        word = before[:place].strip(_EDGES)
    yield from _hosts_and_numbers(word)


def _hosts_and_numbers(part: str) -> Iterator[str]:
    hosts = [it for it in _HOST.finditer(part) if _is_host(it[0])]
    can_be_files = _AFTER_HOST.search(part) is None
    for host in hosts:
        if not (can_be_files and _FILE.fullmatch(host[0])):
            yield part[host.start() :]
            return
    for number in () if hosts else _NUMBER.finditer(part):
        yield number[0]


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_host(name: str) -> bool:
    end = name.rpartition(".")[2]
    return (end[:2].isalpha() and len(end) > 1) or _IPV4.fullmatch(name) is not None
