from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def serving_app(app: web.Application, *, cancels: bool = False) -> AsyncIterator[str]:
    """Yield the URL of the application, without a path.

    ``cancels`` is whether a handler ends when its client disconnects.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=cancels)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
