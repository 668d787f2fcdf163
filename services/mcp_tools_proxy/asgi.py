"""The service as an ASGI application: ``uvicorn mcp_tools_proxy.main:app``.

``mcp-tools-proxy serve`` bounds connections and heads of requests, which other servers do not.
"""

import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType

from fastapi import FastAPI

from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.app.start_checks import check_start, warn_of_exposure
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.settings.settings import Settings, SettingsError, load_settings
from mcp_tools_proxy.system.system_calls import hide_memory
from mcp_tools_proxy.telemetry.logging import configure_logging, take_over_uvicorn_logs

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - assumed, not bound

USAGE_ERROR = 2


def _build() -> FastAPI:
    """Build the application as ``serve`` does. Raises ValueError, SettingsError."""
    hide_memory()
    settings = load_settings()
    settings = settings.model_copy(update={"host": _listening_host(settings)})
    settings.check_listener()
    configure_logging(settings.log_level, sys.stdout)
    take_over_uvicorn_logs()
    with ThreadPoolExecutor(1) as other_thread:  # uvicorn imports this in its event loop
        other_thread.submit(check_start, settings).result()
    found = create_app(settings)
    warn_of_exposure(settings)
    gateway: Gateway = found.state.gateway
    gateway.audit.open()
    serve = found.router.lifespan_context

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[object]:
        with _stopping_at_signals(gateway.lifecycle):
            async with serve(application) as state:
                yield state

    found.router.lifespan_context = lifespan  # type: ignore[assignment]  # state of either kind
    return found


def _listening_host(settings: Settings) -> str:
    """Return the address that the server listens on; every address where that is unknown.

    A gateway that took itself for one on loopback let any client switch presets.
    """
    if "uvicorn" in Path(sys.argv[0]).parts[-2:]:  # the command, or python -m uvicorn
        from uvicorn.main import main  # noqa: PLC0415 - of this server only

        given = main.make_context("uvicorn", sys.argv[1:], resilient_parsing=True).params
        if given.get("uds") is None and given.get("fd") is None:
            return given.get("host") or "127.0.0.1"
    return settings.host if "host" in settings.model_fields_set else EVERY_ADDRESS


@contextmanager
def _stopping_at_signals(lifecycle: Lifecycle) -> Iterator[None]:
    """Stop at the signal that stops the server: it waits for streams, which end only then."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if callable(handler := signal.getsignal(number))
    }

    def stop(number: int, frame: FrameType | None) -> None:
        lifecycle.phase = Phase.STOPPING
        handlers[signal.Signals(number)](number, frame)

    for number in handlers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


try:
    app = _build()
except (SettingsError, ValueError) as error:
    sys.stderr.write(f"mcp-tools-proxy: {error}\n")
    sys.exit(USAGE_ERROR)
