"""Serves a request that asks for another protocol as what it is until somebody agrees: HTTP/1.1."""

from collections.abc import Callable, Iterable
from typing import Any

import httptools

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class _BehindHead:
    """The callbacks of ``protocol``, which are not called for the first head: it had that."""

    def __init__(self, protocol: object) -> None:
        self._protocol: Any = protocol
        self._is_behind = False

    def __getattr__(self, name: str) -> Callable[..., None]:
        callback = getattr(self._protocol, name)

        def call(*values: object) -> None:
            if self._is_behind:
                callback(*values)

        return call

    def on_headers_complete(self) -> None:
        """Pass on everything from now on."""
        if self._is_behind:
            self._protocol.on_headers_complete()
        self._is_behind = True


def parser_behind_head(
    protocol: object, headers: Iterable[tuple[bytes, bytes]], asked: httptools.HttpRequestParser
) -> tuple[httptools.HttpRequestParser, bytes]:
    """Return a parser for what follows the head of ``headers``, and what it has to be fed first.

    The parser that ``asked`` whether to upgrade takes the body for the other protocol and what
    comes in the next read for a new request: the body of a request would be a request of its own,
    with headers that no proxy in front has seen. Clients of Java ask for h2c with every first POST.
    """
    parser = httptools.HttpRequestParser(_BehindHead(protocol))
    parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
    lines = [b"POST / HTTP/%b" % asked.get_http_version().encode()]
    lines += [b"%b: %b" % (name, value) for name, value in headers if name in _FRAMING]
    lines.append(b"connection: keep-alive" if asked.should_keep_alive() else b"connection: close")
    return parser, b"\r\n".join([*lines, b"", b""])
