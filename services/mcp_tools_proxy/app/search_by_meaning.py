"""Builds what searches by meaning, where the operator names a service for it."""

from typing import TYPE_CHECKING

from mcp_tools_proxy.documents.open_documents import OpenDocuments
from mcp_tools_proxy.settings.documents import EmbeddingsSettings
from mcp_tools_proxy.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from httpx import AsyncBaseTransport

    from mcp_tools_proxy.documents.embeddings.embeddings_client import EmbeddingsClient
    from mcp_tools_proxy.documents.embeddings.meaning_search import MeaningSearch


def build_meaning(
    settings: EmbeddingsSettings,
    documents: OpenDocuments,
    metrics: Metrics,
    transport: "AsyncBaseTransport | None" = None,
) -> "MeaningSearch | None":
    """Build the search by meaning; None where it is off.

    Raises ValueError where the package for it is missing.
    """
    client = build_embeddings_client(settings, metrics, transport)
    if client is None:
        return None
    # numpy is an extra; slow to import
    from mcp_tools_proxy.documents.embeddings.meaning_search import (  # noqa: PLC0415
        MeaningSearch,
    )

    return MeaningSearch(
        client,
        documents.store.read,
        documents.writer.vectors,
        min_similarity=settings.embeddings_min_similarity,
        metrics=metrics,
    )


def build_embeddings_client(
    settings: EmbeddingsSettings,
    metrics: Metrics,
    transport: "AsyncBaseTransport | None" = None,
) -> "EmbeddingsClient | None":
    """Build the client of the service; None where none is set.

    Raises ValueError where the package for vectors is missing.
    """
    url, model = settings.embeddings_url, settings.embeddings_model
    if url is None or model is None:
        return None
    try:
        # httpx is slow to import, and numpy is an extra
        from mcp_tools_proxy.documents.embeddings.embeddings_client import (  # noqa: PLC0415
            EmbeddingsClient,
        )
    except ModuleNotFoundError:
        raise ValueError(
            "MCP_PROXY_EMBEDDINGS_URL: is set, but the package for vectors is missing; run "
            "pip install 'mcp-tools-proxy[embeddings]', or unset it"
        ) from None
    key = settings.embeddings_api_key
    return EmbeddingsClient(
        url=url,
        api_key=None if key is None else key.get_secret_value(),
        model=model,
        batch=settings.embeddings_batch,
        timeout_s=settings.embeddings_timeout,
        query_timeout_s=settings.embeddings_query_timeout,
        metrics=metrics,
        transport=transport,
    )
