"""JSON encoding: reuse of encoded pieces, and values that cannot be encoded."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any, Self

from pydantic_core import to_json

MAX_DEPTH = 100
"""Nesting levels that are kept of a value that cannot be encoded."""


def encodable(value: object) -> Any:
    """Return ``value``, or a copy with changes if it cannot be encoded as JSON.

    Lone surrogates become U+FFFD, and values nested too deeply become a short text.
    """
    try:
        to_json(value)
    except ValueError:
        return _mended(value, MAX_DEPTH)
    return value


def _mended(value: object, depth: int) -> object:
    if not depth:
        return "(nested too deeply)"
    match value:
        case str():
            return value.encode(errors="surrogatepass").decode(errors="replace")
        case Mapping():
            return {_mended(k, depth): _mended(v, depth - 1) for k, v in value.items()}
        case list():
            return [_mended(item, depth - 1) for item in value]
        case _:
            return value


def json_text(text: str) -> bytes:
    """Return a text as compact JSON in UTF-8. Raises ValueError for a lone surrogate.

    ``to_json`` is twice as fast, but its cached UTF-8 form doubles the memory of non-ASCII texts.
    """
    return encode_basestring(text).encode()


def json_list(items: Iterable[bytes], *, before: bytes = b"") -> Iterator[bytes]:
    """Yield brackets and rendered values of a list as separate pieces.

    ``before`` is the whitespace before each value.
    """
    yield b"["
    for number, item in enumerate(items):
        yield b"," + before if number else before
        yield item
    yield b"]"


Keep = Callable[[bytes, Callable[[], bytes]], bytes]
"""Returns the bytes of a key, cached if space is left, or builds them."""


class EncodedList(tuple[Mapping[str, object], ...]):
    """A list of MCP definitions; ``keep`` caches its JSON under the content's ``key``."""

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
    """Return a JSON-RPC message as JSON; the JSON of an EncodedList at its start is reused."""
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
