"""Chooses the Retrieval Service, which serves chunk windows."""

from typing import TYPE_CHECKING, Never

from mcp_tools_proxy.domain.errors import RetrievalNotConfigured
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from httpx import AsyncBaseTransport

    from mcp_tools_proxy.documents.retrieval.retrieval_client import RetrievalClient


class UnconfiguredRetrieval:
    """Refuses every chunk window."""

    async def window(self, **_wanted: object) -> Never:
        """Raise RetrievalNotConfigured."""
        raise RetrievalNotConfigured(
            "reading chunk windows is not configured here (retrieval_window_url is not set); use "
            "read_doc_pages or read_doc_section instead"
        )


def build_retrieval_client(
    settings: Settings, metrics: Metrics, transport: "AsyncBaseTransport | None"
) -> "RetrievalClient | None":
    """Build the client of the Retrieval Service; None where none is configured."""
    url, token = settings.retrieval_window_url, settings.retrieval_token
    if url is None or settings.windows_are_local:
        return None
    # httpx is slow to import
    from mcp_tools_proxy.documents.retrieval.retrieval_client import (  # noqa: PLC0415
        RetrievalClient,
    )

    return RetrievalClient(
        url=url,
        token=None if token is None else token.get_secret_value(),
        timeout_s=settings.retrieval_timeout,
        metrics=metrics,
        hide_foreign_documents=settings.hide_foreign_documents,
        send_caller=settings.retrieval_send_caller,
        transport=transport,
    )
