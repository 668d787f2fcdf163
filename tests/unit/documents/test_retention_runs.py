"""Runs of the retention: from time to time, also after failures."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from mcp_tools_proxy.documents.document_writer import ReadOnlyDocuments
from mcp_tools_proxy.documents.retention import PERIOD_S, Retention, RetentionRule
from mcp_tools_proxy.documents.versions import head_of
from mcp_tools_proxy.domain.document import DocumentHead
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.virtual_time import BACKEND, clock


@pytest.fixture
def anyio_backend() -> tuple[str, Mapping[str, object]]:
    return BACKEND


class OneDocument:
    """Has one outdated document; each of the first removals fails with an error."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.attempts: list[float] = []

    @asynccontextmanager
    async def outdated(
        self, rules: Sequence[RetentionRule], *, limit: int
    ) -> AsyncIterator[Sequence[tuple[DocumentHead, str]]]:
        yield [(head_of(make_document()), "expired")]

    async def remove_unchanged(self, head: DocumentHead) -> bool:
        self.attempts.append(clock())
        if self._errors:
            raise self._errors.pop(0)
        return True


@pytest.mark.anyio
async def test_failures_are_logged_once_and_retried() -> None:
    read_only = ReadOnlyDocuments("documents cannot be written")
    documents = OneDocument(read_only, read_only, ValueError("odd"))
    removed = asyncio.Event()

    async def note(head: DocumentHead, reason: str) -> None:
        removed.set()

    started = clock()
    with capture_logs() as lines:
        run = asyncio.create_task(Retention(documents, (), note).run())  # noqa: TID251 - a test's own
        await removed.wait()
        run.cancel()
    assert [it["reason"] for it in lines] == ["documents cannot be written", "odd"]
    pauses = [
        after - before
        for before, after in zip([started, *documents.attempts], documents.attempts, strict=False)
    ]
    assert len(pauses) == 4
    assert all(PERIOD_S / 2 <= it <= PERIOD_S * 3 / 2 for it in pauses)
