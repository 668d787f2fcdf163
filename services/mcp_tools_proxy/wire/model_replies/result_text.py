"""The texts and images that a model receives for a call's outcome, in their order."""

import json
import re
from binascii import Error, a2b_base64
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.components import JsonObject, ToolSpec
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.outcome import Failed, Outcome
from mcp_tools_proxy.wire.content_blocks import CUT, Block
from mcp_tools_proxy.wire.text import QUOTE_CHARS, cut_utf8, printable, quote, utf8_len

MAX_IMAGES = 20
"""Images in the messages of one reply; for more, APIs accept only small ones."""

MAX_IMAGE_BYTES = 3_750_000
"""Bytes of one image: 5 MB as base64, the limit of the strictest API."""

TEXT_ONLY = "this API takes text only"
TEXT_ONLY_ERROR = "this API takes only text with an error"
_NO_IMAGE = "it is not a PNG, JPEG, GIF or WebP image in base64"

_BEGINNINGS: Mapping[str, re.Pattern[bytes]] = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}
"""First bytes of each type of image: APIs refuse a request whose image has another type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that the model's API accepts; ``data`` is its base64."""

    media_type: str
    data: str


class ImageRules:
    """Selects the images shown for one reply, and explains the omission of others."""

    def __init__(self, *, taken: bool, taken_with_error: bool = False) -> None:
        self._left = MAX_IMAGES
        self._taken = taken
        self._taken_with_error = taken_with_error

    def show(self, media_type: str, data: str, *, with_error: bool) -> Image | str:
        """Return the image, or a note in its place."""
        reason = self._refusal(data, with_error=with_error)
        if reason is not None:
            return note(media_type, data, reason)
        found = _type_of(data)
        if found is None:
            return note(media_type, data, _NO_IMAGE)
        self._left -= 1
        return Image(media_type=found, data=data)

    def _refusal(self, data: str, *, with_error: bool) -> str | None:
        """Return the reason to omit this image; None to show it."""
        if not self._taken:
            return TEXT_ONLY
        if with_error and not self._taken_with_error:
            return TEXT_ONLY_ERROR
        if self._left == 0:
            return f"at most {MAX_IMAGES} images are shown at once"
        if size_of(data) > MAX_IMAGE_BYTES:
            return f"an image has at most {_size_text(MAX_IMAGE_BYTES)}"
        return None


def note(media_type: str, data: str, reason: str) -> str:
    """Return the replacement text for omitted data."""
    kind = printable(media_type[:QUOTE_CHARS])
    return f"[{kind}, {_size_text(size_of(data))}: not shown, {reason}]"


def size_of(data: str) -> int:
    """Return the number of bytes that base64 encodes."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _size_text(size: int) -> str:
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1_000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def _type_of(data: str) -> str | None:
    """Return the media type of an image in base64; None for a type that APIs refuse."""
    try:
        image = a2b_base64(data, strict_mode=True)
    except (Error, ValueError):  # ValueError: a character beyond ASCII
        return None
    return next((kind for kind, begin in _BEGINNINGS.items() if begin.match(image)), None)


_UNREADABLE: Any = object()


def holds_structured(texts: Sequence[str], structured: object) -> bool:
    """Return whether ``texts`` already contain ``structured``.

    A text contains it as its JSON, with any spacing, or as the start of the JSON up to a
    truncation. For an object of one property, its value is sufficient: SDKs put a non-object result
    under ``result``, and show it alone, a list as one text per item.
    """
    values = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        values += structured.values()
    if any(_is_shown(text, value) for value in values for text in texts):
        return True
    items = values[-1]
    return (
        isinstance(items, list)
        and len(items) == len(texts)
        and all(_is_shown(text, item) for text, item in zip(texts, items, strict=True))
    )


def _is_shown(text: str, value: object) -> bool:
    if isinstance(value, str):
        return text.strip() == value.strip()
    if text.endswith(CUT):
        begun = _unspaced(text.removesuffix(CUT))
        forms = (to_json(value).decode(), json.dumps(value))
        return any(_unspaced(form).startswith(begun) for form in forms)
    return bool(_parsed(text) == value)


def _parsed(text: str) -> object:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return _UNREADABLE


def _unspaced(text: str) -> str:
    return "".join(text.split())


PARAGRAPH = "\n\n"
NO_CONTENT = "[no content]"
"""The text of an empty result, because APIs refuse empty texts."""

_LONG_BYTES = 1_000

_MAX_NAME_CHARS = 1_000
Part = str | Image


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownResult:
    """The content for a model: ``parts`` with images among the texts, or ``text``, as JSON.

    At least one part exists, texts are not blank, and two texts never follow each other.
    ``content_is_shown`` means that all blocks of a server's content are shown.
    """

    text: bytes | None
    parts: Sequence[Part] = ()
    is_error: bool = False
    content_is_shown: bool = False


def document_text(outcome: Outcome) -> bytes | None:
    """Return a document tool's result as a JSON string; None for any other outcome.

    Escaping a long text here takes half the time of an encoder.
    """
    if isinstance(outcome, Failed) or outcome.spec.server_id is not None:
        return None
    encoded = outcome.result_json
    if len(encoded) < _LONG_BYTES:
        return to_json(encoded.decode())
    return b'"%b"' % encoded.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def show_result(outcome: Outcome, images: ImageRules, *, max_text_bytes: int) -> ShownResult:
    """Return the content that a model receives for a server's result or an error.

    Structured content is included unless a text contains it. All is truncated to ``max_text_bytes``
    or the server's limit.
    """
    shows_structured = True
    if isinstance(outcome.spec, ToolSpec):
        max_text_bytes = outcome.spec.max_text_bytes or max_text_bytes
        shows_structured = outcome.spec.structured_in_messages
    if isinstance(outcome, Failed):
        return _show_error(outcome.error, images, max_text_bytes, shows_structured=shows_structured)
    content = outcome.result.get("content")
    if not isinstance(content, list):
        return ShownResult(text=to_json(outcome.result_json.decode()))
    reader = _ContentReader(
        images,
        with_error=False,
        max_text_bytes=max_text_bytes,
        shows_structured=shows_structured,
    )
    parts = reader.read(content, outcome.result)
    return _shown(parts, is_error=False, is_whole=reader.is_whole)


def _shown(parts: Sequence[Part], *, is_error: bool, is_whole: bool) -> ShownResult:
    parts = _joined(parts)
    only = parts[0]
    if len(parts) == 1 and isinstance(only, str):
        return ShownResult(text=to_json(only), is_error=is_error, content_is_shown=is_whole)
    return ShownResult(text=None, parts=parts, is_error=is_error, content_is_shown=is_whole)


def _show_error(
    error: ProxyError, images: ImageRules, max_text_bytes: int, *, shows_structured: bool
) -> ShownResult:
    """Return the error as text, and the server's content unless the message quotes it in full."""
    details = cast("JsonObject", error.details or {})
    content = details.get("content")
    if not isinstance(content, list):
        return ShownResult(text=to_json(error.as_text), is_error=True)
    reader = _ContentReader(
        images,
        with_error=True,
        max_text_bytes=max_text_bytes,
        shows_structured=shows_structured,
    )
    parts = reader.read(content, details)
    if parts and isinstance(parts[0], str) and _quotes(error.message, parts[0]):
        del parts[0]
    return _shown([error.as_text, *parts], is_error=True, is_whole=reader.is_whole)


def _quotes(message: str, text: str) -> bool:
    return len(text) <= len(message) and quote(text.strip(), len(message)) in message


class _ContentReader:
    """Converts a server's content blocks; ``is_whole`` until a part is omitted."""

    def __init__(
        self,
        images: ImageRules,
        *,
        with_error: bool,
        max_text_bytes: int,
        shows_structured: bool,
    ) -> None:
        self._images = images
        self._shows_structured = shows_structured
        self._with_error = with_error
        self._max_text_bytes = max_text_bytes
        self.is_whole = True

    def read(self, content: Sequence[Block], result: JsonObject) -> list[Part]:
        """Return the parts of all blocks, and the structured content if no text contains it."""
        parts: list[Part] = []
        is_cut = result.get("truncated") is True
        texts: list[str] = []
        for block in content:
            part, text = self._part(block)
            if part:
                parts.append(part)
                texts += [text] if text else []
        # after a truncation, the few bytes left by a multi-byte character would show only '{"'
        structured = None if is_cut else result.get("structured_content")
        if structured is not None and self._is_to_be_shown(structured, texts):
            whole = to_json(structured).decode()
            left_bytes = self._max_text_bytes - sum(map(utf8_len, texts))
            shown = cut_utf8(whole, left_bytes) if left_bytes > 0 else ""
            parts += [shown] if shown else []
            is_cut = is_cut or len(whole) > len(shown)
        if is_cut and not (parts and isinstance(parts[-1], str) and parts[-1].endswith(CUT)):
            parts.append(CUT)
        return parts

    def _is_to_be_shown(self, structured: object, texts: Sequence[str]) -> bool:
        if not texts:
            return True
        return self._shows_structured and not holds_structured(texts, structured)

    def _part(self, block: Block) -> tuple[Part, str]:
        """Return the shown form of a block and its own text, each "" if missing."""
        match block:
            case {"type": "text", "text": str(text)}:
                self._check_whole(block, "type", "text")
                return ("" if text.isspace() else text), text
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text), **fields}}:
                self._check_whole(fields)
                self._check_whole(block, "type", "resource")
                return f"[{_named(uri)}]\n{text}", text
            case {"type": "resource_link", "name": str(name), "uri": str(uri)}:
                self._check_whole(block, "type", "name", "uri")
                return f"[{_named(name)}: {_named(uri)}]", ""
            case {"type": "resource", "resource": {"blob": str(data), **fields}}:
                self.is_whole = False
                return self._data(fields.get("mimeType"), data), ""
            case {"data": str(data)}:
                part = self._data(block.get("mimeType"), data)
                self.is_whole = self.is_whole and isinstance(part, Image)
                self._check_whole(block, "type", "data", "mimeType")
                return part, ""
        self.is_whole = False
        return f"[{_named(block['type'])}: not shown]", ""

    def _check_whole(self, block: Mapping[Any, object], *shown: str) -> None:
        """Record whether a block has fields that are not shown, such as annotations."""
        self.is_whole = self.is_whole and block.keys() <= set(shown)

    def _data(self, media_type: object, data: str) -> Part:
        kind = media_type if isinstance(media_type, str) and media_type else "data"
        if kind.startswith("image/"):
            return self._images.show(kind, data, with_error=self._with_error)
        return note(kind, data, "only text and images are")


def _named(name: str) -> str:
    """Return a name or URI on one line: a line break could imitate text."""
    return printable(name[:_MAX_NAME_CHARS])


def _joined(parts: Sequence[Part]) -> Sequence[Part]:
    joined: list[Part] = []
    for part in parts:
        if joined and isinstance(part, str) and isinstance(joined[-1], str):
            joined[-1] = f"{joined[-1]}{PARAGRAPH}{part}"
        else:
            joined.append(part)
    return joined or (NO_CONTENT,)
