"""Images as models' APIs take them: which ones, how many, and the note for all others."""

import re
from binascii import Error, a2b_base64
from collections.abc import Mapping

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable

MAX_IMAGES = 20
"""Images in the messages of one reply; with more in a request, APIs take small ones only."""

MAX_IMAGE_BYTES = 3_750_000
"""Bytes of one image: 5 MB as base64, which the strictest API takes."""

TEXT_ONLY = "this API takes text only"
TEXT_ONLY_ERROR = "this API takes only text with an error"
_NO_IMAGE = "it is not a PNG, JPEG, GIF or WebP image in base64"

_BEGINNINGS: Mapping[str, re.Pattern[bytes]] = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}
"""How an image of each type begins: APIs refuse a request whose image has another type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that the model's API takes; ``data`` is its base64."""

    media_type: str
    data: str


class ImageRules:
    """Decides which images of one reply's results are shown, and why another one is not."""

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
        """Return why no image like this one is shown; None if one is."""
        if not self._taken:
            return TEXT_ONLY
        if with_error and not self._taken_with_error:
            return TEXT_ONLY_ERROR
        if self._left == 0:
            return f"at most {MAX_IMAGES} images are shown at once"
        if size_of(data) > MAX_IMAGE_BYTES:
            return f"an image has at most {_shown(MAX_IMAGE_BYTES)}"
        return None


def note(media_type: str, data: str, reason: str) -> str:
    """Return what a model reads in the place of data that it is not shown."""
    kind = printable(media_type[:QUOTE_CHARS])
    return f"[{kind}, {_shown(size_of(data))}: not shown, {reason}]"


def size_of(data: str) -> int:
    """Return how many bytes base64 stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _shown(size: int) -> str:
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1_000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def _type_of(data: str) -> str | None:
    """Return the media type of an image in base64; None if it is none that APIs take."""
    try:
        image = a2b_base64(data, strict_mode=True)
    except (Error, ValueError):  # ValueError: a character beyond ASCII
        return None
    return next((kind for kind, begin in _BEGINNINGS.items() if begin.match(image)), None)
