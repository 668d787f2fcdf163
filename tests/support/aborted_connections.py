"""Tears down the connections of a server that ends as a killed process does."""

from contextlib import suppress

from aiohttp import web


def abort_all(runner: web.AppRunner) -> None:
    """Abort every connection of the server."""
    for connection in [] if runner.server is None else runner.server.connections:
        if connection.transport is not None:
            with suppress(AttributeError):  # Python 3.11.2, of TLS that was closed twice
                connection.transport.abort()
