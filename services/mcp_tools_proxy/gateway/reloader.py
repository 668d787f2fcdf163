"""Updates the registry when configuration files or the servers' offers change."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

import structlog

from mcp_tools_proxy.config.config_folder import ConfigFolder, folder_changes
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.gateway.registry_publisher import (
    RegistryPublisher,
    ServerPool,
    log_config_changes,
    log_new,
)

log = structlog.get_logger()


class ChangeSignal:
    """Collects changes from any number of tasks for one handler, which processes them in batches.

    A batch contains the changes reported before the handler starts it; later ones are in the next
    batch.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._handled = asyncio.Event()
        """Set when the current batch is handled; each batch has a separate event."""

    async def report(self) -> None:
        """Report a change, and wait until it is handled; forever without a handler."""
        self._changed.set()
        await self._handled.wait()

    async def batches(self) -> AsyncGenerator[None, None]:
        """Yield once per batch; requesting the next one marks the batch as handled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            handled, self._handled = self._handled, asyncio.Event()
            try:
                yield
            finally:
                handled.set()


class Reloader:
    """Watches files and offers, loads the files, updates the pool, and publishes the registry.

    Failures keep the last valid state. Call ``load`` once, then keep ``run`` running; servers
    report changed offers to ``offer_changes``.
    """

    def __init__(
        self,
        *,
        files: ConfigFolder,
        pool: ServerPool,
        publisher: RegistryPublisher,
        offer_changes: ChangeSignal,
    ) -> None:
        self._files = files
        self._pool = pool
        self._publisher = publisher
        self._offer_changes = offer_changes
        self._preset_problems: Collection[Problem] = ()
        """Problems of all preset files when last read."""

    async def load(self) -> None:
        """Load and publish the files. Invalid files are logged, not raised."""
        async with self._publisher.lock:
            before = self._publisher.config
            found = await asyncio.to_thread(self._files.load_active, before)
            log_config_changes(found, before)
            if found != before or not self._publisher.is_built:
                self._pool.apply(found.servers)
                await self._publisher.publish_screened(found)
            self._publisher.count_reload()
            await self._log_other_presets(found.problems)

    async def _log_other_presets(self, known: Collection[Problem]) -> None:
        """Log the problems of inactive presets, so that they are noticed before a switch.

        They affect no calls, and are neither counted nor shown in readiness.
        """
        listing = await asyncio.to_thread(self._files.list_presets)
        log_new("config.problem", listing.problems, (*self._preset_problems, *known))
        self._preset_problems = listing.problems

    async def run(self) -> None:
        """Publish changes until cancelled: offers immediately, files within a second (P-21).

        Two tasks, so that a slow disk does not delay offers.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._load_changes())
            tasks.create_task(self.publish_offers())

    async def publish_offers(self) -> None:
        """Publish a registry for each batch of changed offers, until cancelled."""
        async with aclosing(self._offer_changes.batches()) as batches:
            async for _ in batches:
                try:
                    await self._publisher.publish_screened()
                except Exception:  # one server's malformed list must not stop all updates
                    log.exception("registry.rebuild_crashed")

    async def _load_changes(self) -> None:
        async with aclosing(folder_changes(self._files.path)) as batches:
            async for _ in batches:
                try:
                    await self.load()
                except Exception:  # the next edit must be loaded after any failure
                    log.exception("config.reload_crashed")
                    self._publisher.count_reload()
