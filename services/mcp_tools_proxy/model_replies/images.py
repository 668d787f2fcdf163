"""Images as models' APIs take them: which ones, how many, and the note for all others."""

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
_NO_IMAGE = "it is no PNG, JPEG, GIF or WebP image in base64"

_BEGINNINGS: Mapping[str, str] = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
"""The media type by how the data begins: APIs refuse a request whose image has another type."""


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
        found = next((kind for start, kind in _BEGINNINGS.items() if data.startswith(start)), None)
        reason = self._refusal(data, with_error=with_error)
        if reason is None and not _is_base64(data):
            reason = _NO_IMAGE
        if reason is not None or found is None:
            return note(media_type, data, reason or _NO_IMAGE)
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


def _is_base64(data: str) -> bool:
    try:
        a2b_base64(data, strict_mode=True)
    except (Error, ValueError):  # ValueError: a character beyond ASCII
        return False
    return True
