"""Lists that keep their JSON: to encode 1,000 tools for each request took as long as ten calls."""

from collections.abc import Callable, Iterable, Mapping
from typing import Self

from pydantic_core import to_json

Keep = Callable[[bytes, Callable[[], bytes]], bytes]
"""Returns what is kept under a key; what is not is built, and kept as long as there is space."""


class EncodedList(tuple[Mapping[str, object], ...]):
    """A list of MCP definitions; ``keep`` holds its JSON under ``key``, which names its content."""

    _keep: Keep
    _key: bytes

    @classmethod
    def of(cls, items: Iterable[Mapping[str, object]], key: bytes, keep: Keep) -> Self:
        """Build a list."""
        built = cls(items)
        built._keep, built._key = keep, key
        return built

    def as_json(self, *, ensure_ascii: bool) -> bytes:
        """Return the list as JSON."""
        key = self._key + (b"ascii" if ensure_ascii else b"utf-8")
        return self._keep(key, lambda: to_json(self, ensure_ascii=ensure_ascii))


def encode_message(message: Mapping[str, object], *, ensure_ascii: bool = False) -> bytes:
    """Return a JSON-RPC message as JSON; an EncodedList that is first in its result is reused."""
    result = message.get("result")
    listed = next(iter(result.values()), None) if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(listed, EncodedList):
        return to_json(message, ensure_ascii=ensure_ascii)
    (name, _), *others = result.items()
    envelope = {key: value for key, value in message.items() if key != "result"}
    rest = to_json(dict(others), ensure_ascii=ensure_ascii)
    return b"".join(
        (
            to_json(envelope, ensure_ascii=ensure_ascii)[:-1],
            b',"result":{%b:' % to_json(name),
            listed.as_json(ensure_ascii=ensure_ascii),
            b"," * bool(others),
            rest[1:],
            b"}",
        )
    )
