"""Serves a request that offers a protocol upgrade as the HTTP/1.1 request that it still is.

Until a server agrees to the upgrade the request stays HTTP/1.1 (RFC 9110 §7.8), and we never agree.
"""

from collections.abc import Callable, Iterable
from typing import Any

import httptools

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class _BehindHead:
    """The callbacks of ``protocol``, silent for the first head: the protocol had that already."""

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
        """Forward every callback from now on."""
        if self._is_behind:
            self._protocol.on_headers_complete()
        self._is_behind = True


def parser_behind_head(
    protocol: object,
    headers: Iterable[tuple[bytes, bytes]],
    head_parser: httptools.HttpRequestParser,
) -> tuple[httptools.HttpRequestParser, bytes]:
    """Return a parser for what follows the head of ``headers``, and the bytes to feed to it first.

    ``head_parser``, which parsed that head, takes the body for the new protocol, and the bytes of
    the next read for a new request. So a body would become a request of its own, with headers that
    no proxy in front has seen (request smuggling). Java's HTTP client offers h2c with each first
    POST, so such requests cannot be refused either.
    """
    parser = httptools.HttpRequestParser(_BehindHead(protocol))
    parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
    keeps_alive = head_parser.should_keep_alive()
    lines = [b"POST / HTTP/%b" % head_parser.get_http_version().encode()]
    lines += [b"%b: %b" % (name, value) for name, value in headers if name in _FRAMING]
    lines.append(b"connection: keep-alive" if keeps_alive else b"connection: close")
    return parser, b"\r\n".join([*lines, b"", b""])
