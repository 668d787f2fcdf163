"""The detectors of all guards, behind one interface.

Detectors take linear time: a search runs over bounded windows, and processing a match never reads
beyond the next possible one. ``tests/unit/policy/test_guard_speed.py`` has adversarial texts.
"""

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from html import unescape
from itertools import islice
from typing import Protocol

from mcp_tools_proxy.domain.guards import GuardName
from mcp_tools_proxy.policy.guards.known_hosts import host_of, is_odd
from mcp_tools_proxy.policy.guards.secrets import find_secrets
from mcp_tools_proxy.policy.guards.texts import Texts, TextSpan
from mcp_tools_proxy.wire.text import HIDDEN, TAGGED_FLAGS, hidden_kind

_GAP = r"(?:[^\w.!?]|_){1,8}"
_WORDS = rf"(?:[^\W_]{{1,20}}{_GAP}){{0,4}}"
"""Words and gaps share no characters, so a text has only one reading."""
_USER = r"(?:the|your|this)?[\W_]{0,8}(?:user|human|operator|customer)s?\b"

PHRASES = (
    (
        "ignore_instructions",
        re.compile(
            rf"(?i)\b(?:ignore|disregard|forget|override|bypass){_GAP}{_WORDS}"
            rf"(?:previous|prior|earlier|above|preceding|other|system|safety|existing){_GAP}"
            rf"(?:[^\W_]{{1,20}}{_GAP})?(?:instruction|prompt|rule|guideline|direction|message|context)s?\b"
        ),
    ),
    (
        "prompt_tag",
        re.compile(
            r"(?i)</?(?:important|system|instructions?|secret|critical|admin|assistant|hidden)"
            r"(?:[_-](?:instructions?|prompt|message|note))?>"
            r"|<\|(?:im_start|im_end|system|user|assistant|endoftext)\|>|\[/?INST\]|<</?SYS>>"
        ),
    ),
    (
        "keep_from_user",
        re.compile(
            rf"(?i)\b(?:do{_GAP}not|don.{{0,2}}t|never|must{_GAP}not|without){_GAP}{_WORDS}"
            rf"(?:tell|mention|inform|notify|alert|reveal|disclose|warn)(?:ing)?\b"
            rf"[\W_]{{0,8}}{_WORDS}{_USER}"
            rf"|\b(?:hide|keep|conceal){_GAP}{_WORDS}(?:from|secret from){_GAP}{_USER}"
            rf"|{_USER}{_GAP}(?:must|should|does|do|may|need){_GAP}not{_GAP}(?:need{_GAP}to{_GAP})?"
            rf"(?:know|see|notice|be{_GAP}(?:told|informed|aware))\b"
        ),
    ),
    (
        "credential_file",
        re.compile(
            r"(?i)[~/.\\]\.?ssh[/\\]|\bid_(?:rsa|ed25519|ecdsa)\b|/etc/(?:passwd|shadow)\b"
            r"|\.aws[/\\]credentials\b|\.cursor[/\\]mcp\.json\b|\bclaude_desktop_config\.json\b"
            r"|\.kube[/\\]config\b|\.netrc\b|\.git-credentials\b"
        ),
    ),
)
"""Kinds and patterns; matches have at most 300 characters."""


WINDOW = 16 * 1024
"""Characters of one search, which takes a few milliseconds and cannot be interrupted."""

OVERLAP = 512
"""Maximum length of a match of all patterns."""

MATCHES = 256
"""Matches between two pauses: processing one takes up to 10 us."""


class Detector(Protocol):
    """Finds the texts of one guard.

    An external guard would implement it too, in a thread if it waits for another process.
    """

    def __call__(self, texts: Texts, hosts: Collection[str], /) -> Iterator[TextSpan | None]:
        """Yield each finding, in order, and None at each pause.

        Links to ``hosts``, the known ones, are not findings.
        """
        ...


def _matches(pattern: re.Pattern[str], joined: str) -> Iterator[re.Match[str] | None]:
    """Yield a pattern's matches of at most ``OVERLAP`` characters, and None after each window."""
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
"""Scripts whose spelling uses joiners between two letters: Arabic, Indic, Khmer, Mongolian."""

_EMOJI = "\u2190-\u2bff\u3030\u303d\U0001f000-\U0001faff"
_HIDDEN_RUN = re.compile(
    rf"(?P<spelling>{TAGGED_FLAGS}|(?<=[{_LETTERS}])[\u200c\u200d](?=[{_LETTERS}])"
    rf"|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}]))|(?:{HIDDEN.pattern}){{1,256}}"
)
_BYTE_ORDER_MARK = "\ufeff"


def find_hidden_characters(texts: Texts, _hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find invisible characters, except those that spelling needs."""
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
    return match[0] == _BYTE_ORDER_MARK and texts.start_of_text(match.start()) == match.start()


_HTML_START = re.compile(r"<!--|<[a-zA-Z]|\]:")
_TAG = re.compile(
    r"<([a-zA-Z][^\s/>]*+)((?:[\s/]++|[^\s/>][^\s/=>]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'>]"
    r"[^\s>]*+|(?=>)))?+)*+)>"
)
_SHORT_TAG = re.compile(r"<([a-zA-Z][^\s/<>]*+)([^<>]*+)>")
"""Read without quotes, because Markdown interprets some tags as text."""

_ATTRIBUTE = re.compile(
    r"([^\s/>][^\s/=>]*+)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>][^\s>]*+)))?+"
)
MAX_TAG_CHARS = 8 * 1024
"""Maximum length of a tag that is read to its end."""

PAUSE_CHARS = 128 * 1024
"""Characters of tags between two pauses: up to 6 ms."""

MAX_NESTED = 256
"""Elements of one name within a hidden one; beyond it, the rest of the text counts as hidden."""

_HIDING = re.compile(
    r"(?i)display\s*+:\s*+none|visibility\s*+:\s*+(?:hidden|collapse)"
    r"|(?:opacity|font-size)\s*+:\s*+(?:[-+]?(?:0{1,4}(?:\.0{1,4})?|\.0{1,4})(?![\d.])|-)"
    r"|(?<![-\w])color\s*+:\s*+transparent|text-indent\s*+:\s*+-\d{3}"
)
_CSS_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|([^\n]))")
_EMPTY_ELEMENTS = frozenset(
    (
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr"),
    )
)


def find_hidden_html(texts: Texts, _hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find invisible parts of a page: comments of HTML and Markdown, and hidden elements."""
    joined = texts.joined
    elements = _HiddenElements(joined)
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
            found = elements.at(match.start(), end_of_text)
        else:
            found = _markdown_comment(texts, match.start(), end_of_text)
        if found is not None:
            at = found.end
            yield found
        if elements.is_pause_due():
            yield None


def _comment(joined: str, start: int, end_of_text: int) -> TextSpan:
    end = joined.find("-->", start + 2, end_of_text)
    return TextSpan(start, end_of_text if end < 0 else end + 3, "html_comment")


class _HiddenElements:
    """Finds hidden elements in one joined text, reading it only a few times."""

    def __init__(self, joined: str) -> None:
        self._joined = joined
        self._left = 4 * len(joined) + MAX_TAG_CHARS
        """Remaining characters for tags within quotes of others, which are read again."""
        self._pause_at = self._left - PAUSE_CHARS

    def is_pause_due(self) -> bool:
        """Return whether tags of ``PAUSE_CHARS`` were read since the last pause."""
        if self._left > self._pause_at:
            return False
        self._pause_at = self._left - PAUSE_CHARS
        return True

    def at(self, start: int, end_of_text: int) -> TextSpan | None:
        """Return the hidden element that starts here, up to its end or the text's; None if visible.

        A tag is read as in browsers, and without quotes, as in Markdown. A text with too many
        nested tags counts as hidden.
        """
        if self._left < 0:
            return TextSpan(start, end_of_text, "hidden_element")
        tag = _TAG.match(self._joined, start, min(end_of_text, start + MAX_TAG_CHARS))
        end = end_of_text if tag is None else tag.end()
        self._left -= min(end - start, MAX_TAG_CHARS)
        if tag is None or not _is_hidden(tag[2]):
            tag = _SHORT_TAG.match(self._joined, start, end_of_text)
            if tag is None or not _is_hidden(tag[2]):
                return None
        if tag[1].lower() in _EMPTY_ELEMENTS:
            return TextSpan(start, tag.end(), "hidden_element")
        return TextSpan(start, self._end_of(tag, end_of_text), "hidden_element")

    def _end_of(self, tag: re.Match[str], end_of_text: int) -> int:
        open_elements = 1
        tags = re.compile(rf"(?i)<(/?){re.escape(tag[1])}(?=[\s/>])")
        for found in islice(tags.finditer(self._joined, tag.end(), end_of_text), MAX_NESTED):
            open_elements += -1 if found[1] else 1
            if not open_elements:
                bracket = self._joined.find(">", found.end(), end_of_text)
                return end_of_text if bracket < 0 else bracket + 1
        return end_of_text


def _is_hidden(attributes: str) -> bool:
    """Return whether attributes hide an element; of two with the same name, the first counts."""
    if not attributes or attributes.isspace():
        return False
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(attributes):
        found.setdefault(match[1].lower(), match[2] or match[3] or match[4] or "")
    return "hidden" in found or bool(_HIDING.search(_css(found.get("style", ""))))


def _css(style: str) -> str:
    """Return a style as browsers read it: without entities, comments and escapes."""
    first, *others = unescape(style).split("/*")
    css = first + "".join(it.partition("*/")[2] for it in others)
    return _CSS_ESCAPE.sub(_unescaped, css) if "\\" in css else css


def _unescaped(escape: re.Match[str]) -> str:
    number = int(escape[1], 16) if escape[1] else 0
    return chr(number) if 0 < number <= sys.maxunicode else escape[2] or ""


_COMMENT_TARGET = re.compile(r"\]:\s*+(?:<#?>|#)(?:(\s++)([(\"'])?|$)")
"""A Markdown definition without a target: its label and title are not displayed."""

_CLOSING = {"(": ")", '"': '"', "'": "'"}


def _markdown_comment(texts: Texts, start: int, end_of_text: int) -> TextSpan | None:
    joined = texts.joined
    target = _COMMENT_TARGET.match(joined, start, end_of_text)
    if target is None or (target[1] is not None and target[2] is None and "\n" not in target[1]):
        return None
    first = max(joined.rfind("\n", 0, start) + 1, texts.start_of_text(start))
    if target[2] is None:
        end = target.end() if target[1] is None else target.start(1)
        return TextSpan(first, end, "markdown_comment")
    closing = joined.find(_CLOSING[target[2]], target.end(), end_of_text)
    last = -1 if closing < 0 else joined.find("\n", closing, end_of_text)
    return TextSpan(first, end_of_text if last < 0 else last, "markdown_comment")


_LINK_START = re.compile(
    r"(?P<inline>\]\()|(?P<definition>\]:)|(?P<auto><)(?=[a-zA-Z][a-zA-Z0-9+.-]{1,31}:)"
    r"|\b(?:(?P<image>(?i:src|srcset|poster|background))|(?P<data>(?i:data))"
    r"|(?P<link>(?i:href|action|formaction|ping)))(?=[\s=])|\b(?P<style>(?i:url)\()"
    r"|\b(?P<constructor>new\s{1,8}URL\()|\b(?P<styled>(?i:style))(?=[\s=:>/])"
)
_ADDRESS = r"[\x00-\x20]*+([^ \f<>\"')]{0,300})"
_MARKDOWN_TARGET = re.compile(r"\s*+<?\s*+([^\s<>\"')]{0,300})")
_ATTRIBUTE_TARGET = re.compile(rf"\s*+=\s*+[\"']?{_ADDRESS}")
_STYLE_TARGET = re.compile(rf"\s*+[\"']?{_ADDRESS}")
_TARGETS = {
    **dict.fromkeys(("inline", "definition", "auto"), _MARKDOWN_TARGET),
    **dict.fromkeys(("image", "data", "link"), _ATTRIBUTE_TARGET),
    **dict.fromkeys(("style", "constructor"), _STYLE_TARGET),
}
_HAS_HOST = re.compile(r"[a-zA-Z\s]{0,24}(?:[:&\\]|[/\\]{2}|/&)")
"""Start of an address with a host, including escapes and entities."""

_SHOWN_AT_ONCE = frozenset(("image", "use", "feimage", "link", "base"))
"""Elements whose ``href`` is opened without a click, or changes the addresses of images."""

_TAG_NAME = re.compile(r"<([a-zA-Z]{1,16})")

MAX_ODD_ADDRESSES = 1000
"""Further addresses with an escaped start count as new hosts without being read."""

_LEFT_OUT = re.compile(r"[\t\n\r]")
"""Characters that browsers ignore in addresses in attributes."""

_REST_OF_INLINE = re.compile(r"[^)\n]{0,2000}+\)")
LABEL_CHARS = 1000


def _link_starts(texts: Texts) -> Iterator[re.Match[str] | None]:
    """Yield the possible starts of links, and None at each pause.

    ``new URL("https://…")`` is code: all 18 findings of ``url(…)`` in 2,400 README files were such.
    After a style it counts: ``list-style: new URL(…)`` names a marker and an image.
    """
    end_of_styled = 0
    for match in _matches(_LINK_START, texts.joined):
        if match is not None and match.lastgroup == "styled":
            if match.start() >= end_of_styled:
                end_of_styled = texts.end_of_text(match.start())
        elif match is None or match.lastgroup != "constructor" or match.start() < end_of_styled:
            yield match


def _find_links(texts: Texts, hosts: Collection[str], *, images: bool) -> Iterator[TextSpan | None]:
    joined = texts.joined
    kinds = _LinkKinds(texts)
    is_new = _NewHosts(hosts)
    at = 0
    for match in _link_starts(texts):
        if match is None:
            yield None
            continue
        if match.start() < at:
            continue
        pattern = _TARGETS[match.lastgroup or ""]
        target = pattern.match(joined, match.end(), texts.end_of_text(match.start()))
        if target is None or not _HAS_HOST.match(target[1]) or not is_new.has(target[1]):
            continue
        if pattern is _MARKDOWN_TARGET:
            start, kind = _markdown_start(texts, match, at, kinds)
        else:
            start, kind = target.start(1), kinds.of_attribute(match)
        if kind and (kind == "image") == images:
            at = _end_of_link(texts, match, target.end())
            yield TextSpan(start, at, kind)


class _NewHosts:
    """Distinguishes new hosts from known ones."""

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self._odd = 0

    def has(self, address: str) -> bool:
        """Return whether an address has a host that is not known."""
        address = _LEFT_OUT.sub("", address)
        if is_odd(address):
            self._odd += 1
            if self._odd > MAX_ODD_ADDRESSES:
                return True
        host = host_of(address)
        return bool(host) and host not in self._known


class _LinkKinds:
    """Distinguishes images from links; positions must be increasing."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._end = -1
        self._found = False
        self._searched_to = 0
        self._tag = ""

    def has_images(self, position: int) -> bool:
        """Return whether the text at ``position`` contains a Markdown image."""
        if position >= self._end:
            start, self._end = (
                self._texts.start_of_text(position),
                self._texts.end_of_text(position),
            )
            self._found = self._texts.joined.find("![", start, self._end) >= 0
        return self._found

    def of_attribute(self, match: re.Match[str]) -> str:
        """Return the kind of an attribute, "" unless it is a link."""
        joined, position = self._texts.joined, match.start()
        start = joined.rfind("<", self._searched_to, position)
        self._searched_to = position
        if start >= 0:
            name = _TAG_NAME.match(joined, start)
            self._tag = "" if name is None else name[1].lower()
        if match.lastgroup == "data":
            return "image" if self._tag == "object" else ""
        if match.lastgroup == "link" and self._tag not in _SHOWN_AT_ONCE:
            return "link"
        return "image"


def _markdown_start(
    texts: Texts, match: re.Match[str], at: int, kinds: _LinkKinds
) -> tuple[int, str]:
    """Return the start of a link, including its label, and its kind.

    A definition counts as an image if the text has images.
    """
    joined, start = texts.joined, match.start()
    if match.lastgroup == "auto":
        return start, "link"
    first = max(at, texts.start_of_text(start), start - LABEL_CHARS)
    label = joined.rfind("[", first, start)
    label = start if label < 0 else label
    if match.lastgroup == "definition":
        return label, "image" if kinds.has_images(start) else "link"
    image = joined.rfind("![", first, start)
    if image >= 0 and joined.count("[", image, start) > joined.count("]", image, start):
        return image, "image"  # its label can contain links
    return label, "link"


def _end_of_link(texts: Texts, match: re.Match[str], end: int) -> int:
    end_of_text = texts.end_of_text(match.start())
    if match.lastgroup == "auto":
        return min(end + 1, end_of_text)
    if match.lastgroup == "inline" and (
        rest := _REST_OF_INLINE.match(texts.joined, end, end_of_text)
    ):
        return rest.end()
    return end


def find_images(texts: Texts, hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find Markdown and HTML images from new hosts: displaying one sends its address there."""
    return _find_links(texts, hosts, images=True)


def find_links(texts: Texts, hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find Markdown and HTML links to new hosts."""
    return _find_links(texts, hosts, images=False)


def find_instructions(texts: Texts, _hosts: Collection[str]) -> Iterator[TextSpan | None]:
    """Find phrases that command a model, which definitions do not need."""
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
