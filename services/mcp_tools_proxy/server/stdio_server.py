"""Runs the gateway as an MCP server on stdin and stdout for one local client."""

import asyncio
import signal

from mcp_tools_proxy.app.auth import mcp_callers
from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.app.mcp import build_server
from mcp_tools_proxy.domain.audit import Entry, Origin
from mcp_tools_proxy.domain.identity import AssertedIdentity
from mcp_tools_proxy.gateway.lifecycle import Phase
from mcp_tools_proxy.http.body import BodyLimits
from mcp_tools_proxy.mcp.server.stdio import serve_stdio
from mcp_tools_proxy.server.garbage_collector import tune_garbage_collector
from mcp_tools_proxy.settings.settings import Settings

LEFTOVER_GRACE_S = 1.0
"""Seconds to send the responses of cancelled calls."""


def run_stdio(settings: Settings, asserted: AssertedIdentity) -> None:
    """Serve one client until its input ends, SIGTERM or Ctrl+C. Raises ValueError."""
    asyncio.run(_serve(settings, asserted))


async def _serve(settings: Settings, asserted: AssertedIdentity) -> None:
    gateway = Gateway(settings)
    gateway.audit.open()
    callers = mcp_callers(settings, gateway.authenticator)
    caller = callers.resolve_trusted(asserted, Origin(Entry.STDIO, ""))
    limits = BodyLimits(max_bytes=settings.max_request_bytes, max_items=settings.max_json_items)
    server = build_server(settings, gateway, one_tenant=True)
    async with gateway.lifespan(), asyncio.TaskGroup() as tasks:
        # many clients list only once, so wait for connecting servers
        await gateway.pool.wait_first_attempts(settings.startup_wait_s)
        tune_garbage_collector()
        serving = tasks.create_task(serve_stdio(server, caller, gateway.lifecycle, limits))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(
                number, _stop, gateway, serving, tasks, settings.shutdown_grace_s
            )


def _stop(
    gateway: Gateway, serving: asyncio.Task[None], tasks: asyncio.TaskGroup, grace_s: float
) -> None:
    """Stop after the calls in flight, within the grace; a second signal cancels."""
    if gateway.lifecycle.phase is Phase.STOPPING:
        serving.cancel()
        return
    gateway.lifecycle.phase = Phase.STOPPING
    tasks.create_task(_drain(gateway, serving, grace_s))


async def _drain(gateway: Gateway, serving: asyncio.Task[None], grace_s: float) -> None:
    _, late = await asyncio.wait({serving}, timeout=grace_s)
    if late:
        gateway.lifecycle.cancel_in_flight()
        await asyncio.wait({serving}, timeout=LEFTOVER_GRACE_S)
        serving.cancel()
