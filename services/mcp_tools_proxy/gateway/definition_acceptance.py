"""Accepts the current definition of an item by adding it to the lock."""

import asyncio
from dataclasses import replace

from mcp_tools_proxy.config.config_folder import ConfigFolder
from mcp_tools_proxy.config.definitions_lock import ActiveLock
from mcp_tools_proxy.domain.definitions import DefinitionKey
from mcp_tools_proxy.domain.errors import ConfigReadOnly, InvalidRequest, VersionMismatch
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.policy.definitions.canonical import descriptor_of
from mcp_tools_proxy.policy.definitions.comparison import (
    PresentDefinition,
    read_definition,
    with_accepted,
)
from mcp_tools_proxy.wire.text import quote

ACCEPTED = "definition accepted"
"""Message to the other worker processes."""


class DefinitionAcceptance:
    """Adds definitions to the lock and publishes the result, in all ``workers``."""

    def __init__(
        self, files: ConfigFolder, publisher: RegistryPublisher, workers: WorkerGroup
    ) -> None:
        self._files = files
        self._publisher = publisher
        self._workers = workers
        workers.on(ACCEPTED, lambda _: self._follow())

    async def accept(self, key: DefinitionKey, sha256: str) -> None:
        """Accept an item's current definition if ``sha256`` is its hash.

        Calls that begin after the return can use the item. Raises InvalidRequest if no server
        offers the item, VersionMismatch if its definition has changed, or ConfigReadOnly, without
        changing anything.
        """
        publisher = self._publisher
        async with publisher.lock:
            present = self._present(key)
            if present.sha256 != sha256:
                raise VersionMismatch(
                    "the definition has changed since; review the new difference, and send its "
                    "sha256",
                    details={"sha256": present.sha256},
                )
            lock = await asyncio.to_thread(self._save, key, present)
            await publisher.publish_screened(replace(publisher.config, lock=lock))
        await self._workers.tell(ACCEPTED)

    async def _follow(self) -> None:
        """Publish the lock that another worker has changed."""
        publisher = self._publisher
        async with publisher.lock:
            lock = await asyncio.to_thread(self._files.load_lock, publisher.config.lock)
            await publisher.publish_screened(replace(publisher.config, lock=lock))

    def _present(self, key: DefinitionKey) -> PresentDefinition:
        snapshot = self._publisher.snapshots.get(key.server_id)
        descriptor = None if snapshot is None else descriptor_of(snapshot, key)
        if descriptor is None:
            raise InvalidRequest(
                f"server {quote(key.server_id)} does not offer this {key.kind.value} now; list "
                "the definitions to see what can be accepted",
                details={"field": "name"},
            )
        return read_definition(key.kind, descriptor)

    def _save(self, key: DefinitionKey, present: PresentDefinition) -> ActiveLock:
        """Add a definition to the current file, and return the resulting lock; blocks."""
        files = self._files
        before = files.load_lock(self._publisher.config.lock)
        if before.problems:
            raise ConfigReadOnly(
                "definitions.lock.json has problems, so nothing can be added to it; fix it, or "
                "remove it and recreate it with mcp-tools-proxy check --lock",
                details={"problems": [str(problem) for problem in before.problems]},
            )
        files.save_lock(with_accepted(before.lock, key, present))
        return files.load_lock(before)
