"""Computes the vectors of imported documents."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp_tools_proxy.cli.documents.document_stores import Unusable
from mcp_tools_proxy.cli.output import echo
from mcp_tools_proxy.documents.document_writer import DocumentWriter
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.settings.documents import EmbeddingsSettings

if TYPE_CHECKING:
    from mcp_tools_proxy.documents.embeddings.embeddings_client import EmbeddingsClient

MAX_WAIT_S = 120.0
"""Maximum seconds for the vectors of one document."""


class VectorImport:
    """Computes vectors until the service fails once; imports do not depend on them."""

    def __init__(self, client: "EmbeddingsClient | None", writer: DocumentWriter) -> None:
        self._client = client
        self._writer = writer

    async def add(self, document: Document, version: str) -> None:
        """Compute and save the vectors of a document; print the first failure."""
        if self._client is None:
            return
        from mcp_tools_proxy.documents.embeddings.embeddings_client import (  # noqa: PLC0415
            EmbeddingsFailed,
        )
        from mcp_tools_proxy.documents.embeddings.vector_maker import make_vectors  # noqa: PLC0415

        try:
            async with asyncio.timeout(MAX_WAIT_S):
                made = await make_vectors(self._client, document, version)
            if made is not None:
                key = (document.tenant_id, document.doc_id)
                await self._writer.vectors.write(key, made)
        except TimeoutError:
            self._stop(f"the service took over {MAX_WAIT_S:g} s")
        except EmbeddingsFailed as error:
            self._stop(f"the service {error.reason}")
        except DocumentsUnavailable as error:
            self._stop(error.message)

    def _stop(self, reason: str) -> None:
        self._client = None
        echo(
            f"no vectors were made: {reason}; the gateway makes them once the document is searched",
            err=True,
        )


@asynccontextmanager
async def vector_import(
    settings: EmbeddingsSettings, writer: DocumentWriter
) -> AsyncIterator[VectorImport]:
    """Open the embeddings client. Raises Unusable if its package is missing."""
    if settings.embeddings_url is None:
        yield VectorImport(None, writer)
        return
    from mcp_tools_proxy.app.optional import build_embeddings_client  # noqa: PLC0415
    from mcp_tools_proxy.telemetry.metrics import Metrics  # noqa: PLC0415

    try:
        client = build_embeddings_client(settings, Metrics())
    except ValueError as error:
        raise Unusable(str(error)) from error
    try:
        yield VectorImport(client, writer)
    finally:
        if client is not None:
            await client.aclose()
