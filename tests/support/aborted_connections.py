from contextlib import suppress

from aiohttp import web


def abort_all(runner: web.AppRunner) -> None:
    for connection in [] if runner.server is None else runner.server.connections:
        if connection.transport is not None:
            with suppress(AttributeError):  # Python 3.11.2, for TLS that was closed twice
                connection.transport.abort()
