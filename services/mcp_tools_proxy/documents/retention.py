"""Removes expired documents, and those that a rule limits to an age."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

import structlog

from mcp_tools_proxy.documents.document_facts import parse_duration
from mcp_tools_proxy.documents.document_store import fold, folded_names, has_expired
from mcp_tools_proxy.domain.document import DocumentHead

PERIOD_S = 600.0
"""Mean seconds between runs; expired documents are not readable even before."""

REMOVED_AT_ONCE = 200
"""Documents per step: in PostgreSQL, other replicas wait for it."""

EXPIRED = "expired"

log = structlog.get_logger()


class RetentionRule(NamedTuple):
    """Maximum ``age`` of documents with a tag (folded), or of all; None keeps them."""

    text: str
    tag: str | None
    age: timedelta | None


def parse_rules(texts: Sequence[str]) -> tuple[RetentionRule, ...]:
    """Return rules such as ``minutes:30d``, ``law:never`` or ``*:365d``.

    Raises ValueError, also for a rule without effect: ``*:30d,law:never`` removed laws.
    """
    rules = tuple(map(_parse_rule, texts))
    for at, rule in enumerate(rules):
        if earlier := [it for it in rules[:at] if it.tag in (None, rule.tag)]:
            raise ValueError(
                f"{rule.text} never applies, as {earlier[0].text} comes first: change their order, "
                "or remove one"
            )
    return rules


def _parse_rule(text: str) -> RetentionRule:
    tag, colon, age = text.rpartition(":")
    if not (colon and tag):
        raise ValueError("should be rules such as minutes:30d, law:never or *:365d")
    parsed = None if age == "never" else parse_duration(age)
    return RetentionRule(text, None if tag == "*" else fold(tag), parsed)


def reason_to_remove(
    head: DocumentHead, updated: datetime, rules: Sequence[RetentionRule], now: datetime
) -> str | None:
    """Return why a document is to be removed, or None; the first rule that matches it decides.

    ``updated`` is the time of its last change.
    """
    if has_expired(head, now):
        return EXPIRED
    tags = folded_names(head)[2:] if rules else ()
    for rule in rules:
        if rule.tag is None or rule.tag in tags:
            is_due = rule.age is not None and updated + rule.age <= now
            return rule.text if is_due else None
    return None


class OutdatedDocuments(Protocol):
    """Finds and removes documents that have expired, or whose rule has."""

    def outdated(
        self, rules: Sequence[RetentionRule], *, limit: int
    ) -> AbstractAsyncContextManager[Sequence[tuple[DocumentHead, str]]]:
        """Find the first such documents with the reasons.

        The caller removes them in the block: the documents of a database are found by one process
        at a time, and by others not at all.
        """
        ...

    async def remove_unchanged(self, head: DocumentHead) -> bool:
        """Remove a document that still has this head; return whether it was removed."""
        ...


class Retention:
    """Removes outdated documents from time to time; ``on_removed`` gets each with the reason."""

    def __init__(
        self,
        documents: OutdatedDocuments,
        rules: Sequence[RetentionRule],
        on_removed: Callable[[DocumentHead, str], Awaitable[None]],
        *,
        at_once: int = REMOVED_AT_ONCE,
    ) -> None:
        self._documents = documents
        self._rules = rules
        self._on_removed = on_removed
        self._at_once = at_once
        self._failure: str | None = None

    async def run(self) -> None:
        """Remove outdated documents until cancelled; failures are logged once, and retried."""
        while True:
            await asyncio.sleep(PERIOD_S * (0.5 + random.random()))  # noqa: S311 - no secret
            try:
                await self.remove_outdated()
                self._failure = None
            except Exception as error:  # noqa: BLE001 - one document must not stop the gateway
                reason = str(getattr(error, "reason", None) or error)
                if reason != self._failure:
                    log.warning("documents.retention_failed", reason=reason)
                self._failure = reason

    async def remove_outdated(self) -> None:
        """Remove all outdated documents, in steps."""
        while await self._remove_first() == self._at_once:
            pass

    async def _remove_first(self) -> int:
        """Remove the first outdated documents; return their number, without those that changed."""
        count = 0
        async with self._documents.outdated(self._rules, limit=self._at_once) as found:
            for head, reason in found:
                if await self._documents.remove_unchanged(head):
                    await self._on_removed(head, reason)
                    count += 1
        return count
