"""What a model is shown of a call's outcome: texts and images, in their order."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.outcome import Failed, Outcome
from mcp_tools_proxy.model_replies.images import Image, ImageRules, note
from mcp_tools_proxy.wire.content_blocks import Block
from mcp_tools_proxy.wire.text import cut_utf8, printable, quote

PARAGRAPH = "\n\n"
NO_CONTENT = "[no content]"
"""The text of a result without any: APIs refuse an empty one."""

CUT = "[the rest of the text was cut off]"

_LONG_BYTES = 1_000

_MAX_NAME_CHARS = 1_000
"""What is shown of a name or an address."""

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


def show_result(outcome: Outcome, images: ImageRules, *, max_text_bytes: int) -> ShownResult:
    """Return what a model is shown of a server's result, or of an error.

    Structured content is cut to ``max_text_bytes``, as texts were when they came.
    """
    if isinstance(outcome, Failed):
        return _show_error(outcome.error, images, max_text_bytes)
    content = outcome.result.get("content")
    if not isinstance(content, list):
        return ShownResult(text=to_json(outcome.result_json.decode()))
    reader = _ContentReader(images, with_error=False, max_text_bytes=max_text_bytes)
    parts = reader.read(content, outcome.result)
    return _shown(parts, is_error=False, is_whole=reader.is_whole)


def _shown(parts: Sequence[Part], *, is_error: bool, is_whole: bool) -> ShownResult:
    parts = _joined(parts)
    only = parts[0]
    if len(parts) == 1 and isinstance(only, str):
        return ShownResult(text=to_json(only), is_error=is_error, content_is_shown=is_whole)
    return ShownResult(text=None, parts=parts, is_error=is_error, content_is_shown=is_whole)


def _show_error(error: ProxyError, images: ImageRules, max_text_bytes: int) -> ShownResult:
    """Return the error as text, and what the server wrote, unless the message quotes it whole."""
    details = cast("JsonObject", error.details or {})
    content = details.get("content")
    if not isinstance(content, list):
        return ShownResult(text=to_json(error.as_text), is_error=True)
    reader = _ContentReader(images, with_error=True, max_text_bytes=max_text_bytes)
    parts = reader.read(content, details)
    if parts and isinstance(parts[0], str) and _quotes(error.message, parts[0]):
        del parts[0]
    return _shown([error.as_text, *parts], is_error=True, is_whole=reader.is_whole)


def _quotes(message: str, text: str) -> bool:
    """Return whether a message quotes a text, which it escapes, whole."""
    return len(text) <= len(message) and quote(text.strip(), len(message)) in message


class _ContentReader:
    """Converts a server's content blocks; ``is_whole`` until something of one is left out."""

    def __init__(self, images: ImageRules, *, with_error: bool, max_text_bytes: int) -> None:
        self._images = images
        self._with_error = with_error
        self._max_text_bytes = max_text_bytes
        self.is_whole = True

    def read(self, content: Sequence[Block], result: JsonObject) -> list[Part]:
        """Return the parts of all blocks; where no text is, the structured content as well."""
        parts: list[Part] = []
        is_cut = result.get("truncated") is True
        has_text = False
        for block in content:
            part, is_text = self._part(block)
            if part:
                parts.append(part)
                has_text = has_text or is_text
        structured = result.get("structured_content")
        if structured is not None and not has_text:
            whole = to_json(structured).decode()
            parts.append(cut_utf8(whole, self._max_text_bytes))
            is_cut = is_cut or len(whole) > len(str(parts[-1]))
        if is_cut:
            parts.append(CUT)
        return parts

    def _part(self, block: Block) -> tuple[Part, bool]:
        """Return what is shown of a block, "" for nothing; and whether it is its own text."""
        match block:
            case {"type": "text", "text": str(text)}:
                self._check_whole(block, "type", "text")
                return ("" if text.isspace() else text), True
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text), **fields}}:
                self._check_whole(fields)
                self._check_whole(block, "type", "resource")
                return f"[{_named(uri)}]\n{text}", True
            case {"type": "resource_link", "name": str(name), "uri": str(uri)}:
                self._check_whole(block, "type", "name", "uri")
                return f"[{_named(name)}: {_named(uri)}]", False
            case {"type": "resource", "resource": {"blob": str(data), **fields}}:
                self.is_whole = False
                return self._data(fields.get("mimeType"), data), False
            case {"data": str(data)}:
                part = self._data(block.get("mimeType"), data)
                self.is_whole = self.is_whole and isinstance(part, Image)
                self._check_whole(block, "type", "data", "mimeType")
                return part, False
        self.is_whole = False
        return f"[{_named(block['type'])}: not shown]", False

    def _check_whole(self, block: Mapping[Any, object], *shown: str) -> None:
        """Remember whether a block has fields that are not shown, such as annotations."""
        self.is_whole = self.is_whole and block.keys() <= set(shown)

    def _data(self, media_type: object, data: str) -> Part:
        kind = media_type if isinstance(media_type, str) and media_type else "data"
        if kind.startswith("image/"):
            return self._images.show(kind, data, with_error=self._with_error)
        return note(kind, data, "only text and images are")


def _named(name: str) -> str:
    """Return a name or address on one line: one with a line break could pretend to be text."""
    return printable(name[:_MAX_NAME_CHARS])


def _joined(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the parts, with texts that follow each other joined by a blank line."""
    joined: list[Part] = []
    for part in parts:
        if joined and isinstance(part, str) and isinstance(joined[-1], str):
            joined[-1] = f"{joined[-1]}{PARAGRAPH}{part}"
        else:
            joined.append(part)
    return joined or (NO_CONTENT,)
