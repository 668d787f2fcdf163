"""What each guard finds, behind one interface.

Each detector takes linear time: a search runs over windows of bounded length, and what follows a
match reads no further than the next possible one. ``tests/unit/policy/test_guard_speed.py`` has
the texts that were meant to be slow.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from html import unescape
from typing import Protocol

from mcp_tools_proxy.domain.guards import GuardName
from mcp_tools_proxy.policy.guards.known_hosts import host_of, is_odd
from mcp_tools_proxy.policy.guards.phrases import PHRASES
from mcp_tools_proxy.policy.guards.secrets import find_secrets
from mcp_tools_proxy.policy.guards.texts import Texts, TextSpan
from mcp_tools_proxy.wire.unicode.hidden_characters import HIDDEN, hidden_kind

WINDOW = 16 * 1024
"""Characters of one search: at most a few milliseconds, for it cannot be interrupted."""

OVERLAP = 512
"""No pattern of a search matches more characters than this."""

MATCHES = 256
"""Matches between two pauses: what follows a match takes up to 10 us."""


class Detector(Protocol):
    """Finds what one guard looks for.

    An external guard would be one more of these, in a thread if it waits for another process.
    """

    def __call__(self, texts: Texts, hosts: Collection[str], /) -> Iterator[TextSpan | None]:
        """Yield each part that was found, in order, and None at each pause.

        ``hosts`` are the known ones: no link to them is found.
        """
        ...


def _matches(pattern: re.Pattern[str], joined: str) -> Iterator[re.Match[str] | None]:
    """Yield the matches of a pattern of at most ``OVERLAP`` characters, None after each window."""
    at = 0
    for start in range(0, len(joined), WINDOW):
        end = start + WINDOW
        matches = pattern.finditer(joined, max(at, start), end + OVERLAP)
        for number, match in enumerate(matches, 1):
            if match.start() >= end:
                break
            at = match.end()
            yield match
            if not number % MATCHES:
                yield None
        yield None


_LETTERS = "\u0600-\u08ff\ufb50-\ufdff\ufe70-\ufefc\u0900-\u0dff\u1780-\u18af"
"""Scripts in which joiners between two letters are spelling: Arabic, of India, Khmer, Mongolian."""

_EMOJI = "\u2190-\u2bff\u3030\u303d\U0001f000-\U0001faff"
_FLAGS = "\U0001f3f4(?:\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067" + (
    "|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f)"
)
"""The flags of England, Scotland and Wales are the only ones of tag characters."""

_HIDDEN_RUN = re.compile(
    rf"(?P<spelling>{_FLAGS}|(?<=[{_LETTERS}])[\u200c\u200d](?=[{_LETTERS}])"
    rf"|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}]))|(?:{HIDDEN.pattern}){{1,256}}"
)
_BYTE_ORDER_MARK = "\ufeff"


def find_hidden_characters(texts: Texts, _hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find characters that people do not see, but for those that spelling needs."""
    joined = texts.joined
    if joined.isascii() and joined.isprintable():
        return
    for match in _matches(_HIDDEN_RUN, joined):
        if match is None:
            yield None
        elif match["spelling"] is None and not _starts_text(match, texts):
            kind = hidden_kind(joined, match.start(), match.end())
            yield TextSpan(match.start(), match.end(), kind.value)


def _starts_text(match: re.Match[str], texts: Texts) -> bool:
    """Return whether a match is the byte order mark of a text, which is of its file."""
    return match[0] == _BYTE_ORDER_MARK and texts.start_of_text(match.start()) == match.start()


_HTML_START = re.compile(r"<!--|<[a-zA-Z]|\]:[ \t]{0,4}(?:#|<>)[ \t]{1,4}[(\"']")
_TAG = re.compile(r"<([a-zA-Z][a-zA-Z0-9-]*+)((?>[^<>\"']+|\"[^\"<]*\"|'[^'<]*')*+)>")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_HIDDEN_ATTRIBUTE = re.compile(r"(?i)[\s\"']hidden(?=[\s=/]|$)")
_STYLE = re.compile(r"(?i)[\s\"']style\s{0,8}=\s{0,8}(\"[^\"]*\"|'[^']*'|[^\s>]+)")
_HIDING = re.compile(
    r"(?i)display\s{0,8}:\s{0,8}none|visibility\s{0,8}:\s{0,8}(?:hidden|collapse)"
    r"|(?:opacity|font-size)\s{0,8}:\s{0,8}(?:0{1,4}(?:\.0{1,4})?|\.0{1,4})(?![\d.])"
    r"|(?<![-\w])color\s{0,8}:\s{0,8}transparent|text-indent\s{0,8}:\s{0,8}-\d{3}"
)
_EMPTY_ELEMENTS = frozenset(
    (
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr"),
    )
)


def find_hidden_html(texts: Texts, _hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find what a page does not show: comments of HTML and Markdown, and hidden elements."""
    joined = texts.joined
    at = 0
    for match in _matches(_HTML_START, joined):
        if match is None:
            yield None
            continue
        if match.start() < at:
            continue
        end_of_text = texts.end_of_text(match.start())
        if match[0] == "<!--":
            found: TextSpan | None = _comment(joined, match.start(), end_of_text)
        elif match[0][0] == "<":
            found = _hidden_element(joined, match.start(), end_of_text)
        else:
            found = _markdown_comment(texts, match.start(), end_of_text)
        if found is not None:
            at = found.end
            yield found


def _comment(joined: str, start: int, end_of_text: int) -> TextSpan:
    end = joined.find("-->", start + 2, end_of_text)
    return TextSpan(start, end_of_text if end < 0 else end + 3, "html_comment")


def _hidden_element(joined: str, start: int, end_of_text: int) -> TextSpan | None:
    """Return the element that starts here if it is hidden, up to its end or that of the text."""
    tag = _TAG.match(joined, start, end_of_text)
    if tag is None or not _is_hidden(tag[2]):
        return None
    end = tag.end()
    if tag[1].lower() not in _EMPTY_ELEMENTS:
        closing = joined.find(f"</{tag[1]}", end, end_of_text)
        bracket = -1 if closing < 0 else joined.find(">", closing, end_of_text)
        end = end_of_text if bracket < 0 else bracket + 1
    return TextSpan(start, end, "hidden_element")


def _is_hidden(attributes: str) -> bool:
    if not attributes:
        return False
    if _HIDDEN_ATTRIBUTE.search(_QUOTED.sub('""', attributes)):
        return True
    style = _STYLE.search(attributes)
    return style is not None and bool(_HIDING.search(_without_comments(unescape(style[1]))))


def _without_comments(css: str) -> str:
    first, *others = css.split("/*")
    return first + "".join(it.partition("*/")[2] for it in others)


def _markdown_comment(texts: Texts, start: int, end_of_text: int) -> TextSpan:
    joined = texts.joined
    first = max(joined.rfind("\n", 0, start) + 1, texts.start_of_text(start))
    last = joined.find("\n", start, end_of_text)
    return TextSpan(first, end_of_text if last < 0 else last, "markdown_comment")


_HEAD = r"<?[a-zA-Z]{0,5}(?:[:&\\]|[/\\]{2}|/&)"
"""How an address with a host begins, whatever of it is escaped or written as an entity."""

_LINK_START = re.compile(
    rf"(?P<inline>\]\()(?=\s{{0,32}}{_HEAD})|(?P<definition>\]:)(?=\s{{0,32}}{_HEAD})"
    r"|(?P<auto><)(?=[a-zA-Z][a-zA-Z0-9+.-]{1,31}:)"
    r"|(?P<image>\b(?i:src|srcset|poster|background)\s{0,8}=\s{0,8}[\"']?"
    r"|\b(?i:url)\(\s{0,8}[\"']?)(?=[a-zA-Z\s]{0,24}[:&\\/])"
    r"|(?P<link>\b(?i:href|action|formaction)\s{0,8}=\s{0,8}[\"']?)(?=[a-zA-Z\s]{0,24}[:&\\/])"
)
_TARGET = re.compile(r"\s{0,32}+<?([^\s<>\"')]{0,300})")
_ATTRIBUTE_TARGET = re.compile(r"\s{0,32}+([^ \f<>\"')]{0,300})")
MAX_ODD_ADDRESSES = 1000
"""More addresses that hide how they begin are taken for new hosts without being read."""

_LEFT_OUT = re.compile(r"[\t\n\r]")
"""What browsers leave out of addresses in attributes."""

_REST_OF_INLINE = re.compile(r"[^)\n]{0,2000}+\)")
LABEL_CHARS = 1000


def _find_links(texts: Texts, hosts: Collection[str], *, images: bool) -> Iterator[TextSpan | None]:
    joined = texts.joined
    has_images = _HasImages(texts)
    is_new = _NewHosts(hosts)
    at = 0
    for match in _matches(_LINK_START, joined):
        if match is None:
            yield None
            continue
        if match.start() < at:
            continue
        is_attribute = match.lastgroup in ("image", "link")
        pattern = _ATTRIBUTE_TARGET if is_attribute else _TARGET
        target = pattern.match(joined, match.end(), texts.end_of_text(match.start()))
        if target is None or not is_new.has(target[1]):
            continue
        if is_attribute:
            found = TextSpan(target.start(1), target.end(), match.lastgroup or "")
        else:
            found = _markdown_link(texts, match, target.end(), at, has_images)
        if (found.kind == "image") == images:
            yield found
            at = found.end


class _NewHosts:
    """Tells new hosts from the known ones."""

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self._odd = 0

    def has(self, address: str) -> bool:
        """Return whether an address has a host, and that is not a known one."""
        address = _LEFT_OUT.sub("", address)
        if is_odd(address):
            self._odd += 1
            if self._odd > MAX_ODD_ADDRESSES:
                return True
        host = host_of(address)
        return bool(host) and host not in self._known


class _HasImages:
    """Whether a text has an image of Markdown; asked for one text after the other."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._end = -1
        self._found = False

    def at(self, position: int) -> bool:
        """Return it for the text that holds ``position``."""
        if position >= self._end:
            start, self._end = (
                self._texts.start_of_text(position),
                self._texts.end_of_text(position),
            )
            self._found = self._texts.joined.find("![", start, self._end) >= 0
        return self._found


def _markdown_link(
    texts: Texts, match: re.Match[str], end: int, at: int, has_images: _HasImages
) -> TextSpan:
    """Return a link with its label. A definition may be that of an image, if there are images."""
    joined, start = texts.joined, match.start()
    end_of_text = texts.end_of_text(start)
    if match.lastgroup == "auto":
        return TextSpan(start, min(end + 1, end_of_text), "link")
    label = joined.rfind("[", max(at, texts.start_of_text(start), start - LABEL_CHARS), start)
    start = start if label < 0 else label
    if match.lastgroup == "definition":
        return TextSpan(start, end, "image" if has_images.at(start) else "link")
    rest = _REST_OF_INLINE.match(joined, end, end_of_text)
    is_image = start > at and joined[start - 1] == "!"
    kind = "image" if is_image else "link"
    return TextSpan(start - is_image, end if rest is None else rest.end(), kind)


def find_images(texts: Texts, hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find images of Markdown and HTML from new hosts: showing one sends its address there."""
    return _find_links(texts, hosts, images=True)


def find_links(texts: Texts, hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find links of Markdown and HTML to new hosts."""
    return _find_links(texts, hosts, images=False)


def find_instructions(texts: Texts, _hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find phrases that give orders to a model, which a definition has no reason to."""
    for kind, pattern in PHRASES:
        for match in _matches(pattern, texts.joined):
            yield None if match is None else TextSpan(match.start(), match.end(), kind)


DETECTORS: Mapping[GuardName, Detector] = {
    GuardName.HIDDEN_CHARACTERS: find_hidden_characters,
    GuardName.HIDDEN_HTML: find_hidden_html,
    GuardName.IMAGES: find_images,
    GuardName.LINKS: find_links,
    GuardName.SECRETS: find_secrets,
    GuardName.INSTRUCTIONS: find_instructions,
}
