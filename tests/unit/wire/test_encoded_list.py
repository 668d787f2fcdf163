"""Messages with a pre-encoded list are encoded like any other message, but faster."""

from collections.abc import Callable

from pydantic_core import to_json

from mcp_tools_proxy.wire.encoding import EncodedList, encode_message
from tests.support.tables import each_row

TOOLS = ({"name": "søk"}, {"name": "b\u2028"})


class Kept:
    def __init__(self) -> None:
        self.items: dict[bytes, bytes] = {}
        self.built = 0

    def keep(self, key: bytes, build: Callable[[], bytes]) -> bytes:
        if key not in self.items:
            self.built += 1
            self.items[key] = build()
        return self.items[key]


def listed(items: tuple[dict[str, str], ...], kept: Kept) -> EncodedList:
    return EncodedList.of(items, b"tag", kept.keep)


@each_row("ensure_ascii", [True, False])
@each_row("others", [{}, {"ttlMs": 0, "_meta": {"é": [1]}}])
@each_row("items", [TOOLS, ()])
def test_a_response_with_a_list_is_encoded_like_any_other(
    items: tuple[dict[str, str], ...], others: dict[str, object], *, ensure_ascii: bool
) -> None:
    response = {"jsonrpc": "2.0", "id": "ü", "result": {"tools": listed(items, Kept()), **others}}
    plain = {"jsonrpc": "2.0", "id": "ü", "result": {"tools": list(items), **others}}
    expected = to_json(plain, ensure_ascii=ensure_ascii)
    assert encode_message(response, ensure_ascii=ensure_ascii) == expected


@each_row("rest", [{"result": {}}, {"result": {"tools": [1]}}, {"error": {}}, {"method": "ping"}])
def test_a_message_without_such_a_list_is_plain_json(rest: dict[str, object]) -> None:
    message = {"jsonrpc": "2.0", **rest}
    assert encode_message(message) == to_json(message)


def test_a_list_is_encoded_once_per_encoding() -> None:
    kept = Kept()
    tools = listed(TOOLS, kept)
    for ensure_ascii in (True, False, True, False):
        encode_message({"id": 1, "result": {"tools": tools}}, ensure_ascii=ensure_ascii)
    assert kept.built == 2
