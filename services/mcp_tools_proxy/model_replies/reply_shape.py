"""What a model's API has to be known of: the shape of its replies, and of what follows them."""

from collections.abc import Sequence
from typing import Protocol

from mcp_tools_proxy.model_replies.images import ImageRules
from mcp_tools_proxy.model_replies.model_call import Item, ModelCall
from mcp_tools_proxy.model_replies.result_text import Part

Pieces = tuple[bytes, ...]
"""JSON in pieces: joined only once, with all else of an answer."""


class ReplyShape(Protocol):
    """The shape of one API; an implementation has no state."""

    title: str
    """The API and its property, for messages."""

    opening: bytes
    closing: bytes
    """What the results are put between, separated by commas."""

    id_key: str
    """The property of a call that its result has to name."""

    ids_identify: bool
    """Whether results belong to calls by their ids, so that each needs its own."""

    def is_item(self, item: Item) -> bool:
        """Return whether an item is surely one of this API's: no other API has such items."""
        ...

    def read_call(self, item: Item, place: int) -> ModelCall | None:
        """Return the call of an item; None for an item that is no call. Raises InvalidRequest."""
        ...

    def image_rules(self) -> ImageRules:
        """Return which images the results of one reply may have."""
        ...

    def content_of(self, parts: Sequence[Part]) -> bytes:
        """Build the JSON of a result with images."""
        ...

    def result_of(self, call: ModelCall, content: bytes, *, is_error: bool) -> Pieces:
        """Build the result of one call around its content, the JSON of a text or of parts."""
        ...
