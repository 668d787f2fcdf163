"""What a model is shown of a call's outcome: texts and images, in their order."""

from collections.abc import Sequence
from typing import cast

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.outcome import Failed, Outcome
from mcp_tools_proxy.model_replies.images import Image, ImageRules, note
from mcp_tools_proxy.wire.content_blocks import Block
from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable

PARAGRAPH = "\n\n"
NO_CONTENT = "[no content]"
"""The text of a result without any: APIs refuse an empty one."""

CUT = "[the rest of the text was cut off]"

_LONG_BYTES = 1_000

Part = str | Image


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownResult:
    """What a model is shown: ``parts`` with images among the texts, or ``text``, as JSON.

    There is at least one part, no text is blank, and no two texts follow each other.
    ``content_is_shown``: there is content of a server, and all its blocks are shown.
    """

    text: bytes | None
    parts: Sequence[Part] = ()
    is_error: bool = False
    content_is_shown: bool = False


def document_text(outcome: Outcome) -> bytes | None:
    """Return the JSON of a document tool's result as a JSON string; None for any other outcome.

    A long text is escaped here in half the time of an encoder.
    """
    if isinstance(outcome, Failed) or outcome.spec.server_id is not None:
        return None
    encoded = outcome.result_json
    if len(encoded) < _LONG_BYTES:
        return to_json(encoded.decode())
    return b'"%b"' % encoded.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def show_result(outcome: Outcome, images: ImageRules) -> ShownResult:
    """Return what a model is shown of a server's result, or of an error."""
    if isinstance(outcome, Failed):
        return _show_error(outcome.error, images)
    content = outcome.result.get("content")
    if not isinstance(content, list):
        return ShownResult(text=to_json(outcome.result_json.decode()))
    reader = _ContentReader(images, with_error=False)
    parts = reader.read(content, outcome.result)
    return _shown(parts, is_error=False, is_whole=reader.is_whole)


def _shown(parts: Sequence[Part], *, is_error: bool, is_whole: bool) -> ShownResult:
    parts = _joined(parts)
    only = parts[0]
    if len(parts) == 1 and isinstance(only, str):
        return ShownResult(text=to_json(only), is_error=is_error, content_is_shown=is_whole)
    return ShownResult(text=None, parts=parts, is_error=is_error, content_is_shown=is_whole)


def _show_error(error: ProxyError, images: ImageRules) -> ShownResult:
    """Return the error as text, and what the server wrote, unless the message quotes it all."""
    details = cast("JsonObject", error.details or {})
    content = details.get("content")
    if not isinstance(content, list):
        return ShownResult(text=to_json(error.as_text), is_error=True)
    reader = _ContentReader(images, with_error=True)
    parts = reader.read(content, details)
    is_quoted = len(parts) == 1 and f'"{parts[0]}"' in error.message
    parts = [error.as_text, *(() if is_quoted else parts)]
    return _shown(parts, is_error=True, is_whole=reader.is_whole)


class _ContentReader:
    """Converts a server's content blocks; ``is_whole`` until one is only noted."""

    def __init__(self, images: ImageRules, *, with_error: bool) -> None:
        self._images = images
        self._with_error = with_error
        self.is_whole = True

    def read(self, content: Sequence[Block], result: JsonObject) -> list[Part]:
        """Return the parts of all blocks; where no text is, the structured content as well."""
        parts: list[Part] = []
        has_text = False
        for block in content:
            text = _text_of(block)
            if text is None:
                parts.append(self._binary(block))
            elif text and not text.isspace():
                parts.append(text)
                has_text = True
        structured = result.get("structured_content")
        if structured is not None and not has_text:
            parts.append(to_json(structured).decode())
        if result.get("truncated") is True:
            parts.append(CUT)
        return parts

    def _binary(self, block: Block) -> Part:
        """Return the part for a block without text: an image, a link, or a note."""
        match block:
            case {"type": "resource_link", "name": str(name), "uri": str(uri)}:
                return f"[{name}: {uri}]"
            case {"type": "resource", "resource": {"blob": str(data), **fields}}:
                part = self._data(fields.get("mimeType"), data)
            case {"data": str(data), **fields}:
                part = self._data(fields.get("mimeType"), data)
            case _:
                part = f"[{printable(block['type'][:QUOTE_CHARS])}: not shown]"
        self.is_whole = self.is_whole and isinstance(part, Image)
        return part

    def _data(self, media_type: object, data: str) -> Part:
        kind = media_type if isinstance(media_type, str) and media_type else "data"
        if kind.startswith("image/"):
            return self._images.show(kind, data, with_error=self._with_error)
        return note(kind, data, "only text and images are")


def _text_of(block: Block) -> str | None:
    """Return the text of a text block or an embedded text; None for all other blocks."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
    return None


def _joined(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the parts, with texts that follow each other joined by a blank line."""
    joined: list[Part] = []
    for part in parts:
        if joined and isinstance(part, str) and isinstance(joined[-1], str):
            joined[-1] = f"{joined[-1]}{PARAGRAPH}{part}"
        else:
            joined.append(part)
    return joined or (NO_CONTENT,)
