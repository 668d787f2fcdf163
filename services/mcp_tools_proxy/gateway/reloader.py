"""Keeps the registry in step with the configuration files and the servers' offers."""

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
    """Carries changes from any number of tasks to one handler, which handles them in batches.

    A batch is all that was reported until the handler takes it. What is reported meanwhile is in
    the next batch.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._handled = asyncio.Event()
        """Set when what was reported until now is handled; each batch has an event of its own."""

    async def report(self) -> None:
        """Report a change, and wait until it was handled: for ever if nothing iterates."""
        self._changed.set()
        await self._handled.wait()

    async def batches(self) -> AsyncGenerator[None, None]:
        """Yield for each batch of changes, which is handled when the next one is requested."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            handled, self._handled = self._handled, asyncio.Event()
            try:
                yield
            finally:
                handled.set()


class Reloader:
    """Watches files and offers; loads the files, updates the pool, and publishes the registry.

    A failure keeps the last good state. Call ``load`` once, then keep ``run`` running; servers
    report to ``offer_changes`` that their offers changed.
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
        """Those of all preset files, as they were read last."""

    async def load(self) -> None:
        """Load the files and publish what they say. Invalid files are logged, never raised."""
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
        """Log the problems of presets that are not active, so that no switch is needed to see them.

        They concern no call: they are neither counted nor shown in readiness.
        """
        listing = await asyncio.to_thread(self._files.list_presets)
        log_new("config.problem", listing.problems, (*self._preset_problems, *known))
        self._preset_problems = listing.problems

    async def run(self) -> None:
        """Publish what changes until cancelled: offers at once, files within a second (P-21).

        Two loops, since a slow disk must not delay what servers offer.
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
                except Exception:  # the odd offer of one server must not end the updates of all
                    log.exception("registry.rebuild_crashed")

    async def _load_changes(self) -> None:
        async with aclosing(folder_changes(self._files.path)) as batches:
            async for _ in batches:
                try:
                    await self.load()
                except Exception:  # the next edit is loaded whatever this one led to
                    log.exception("config.reload_crashed")
                    self._publisher.count_reload()
