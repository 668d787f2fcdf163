"""What stands for chunk windows where ``retrieval_window_url`` is not set."""

from typing import Never

from mcp_tools_proxy.domain.errors import RetrievalNotConfigured


class UnconfiguredRetrieval:
    """Refuses every chunk window."""

    async def window(self, **_wanted: object) -> Never:
        """Raise RetrievalNotConfigured."""
        raise RetrievalNotConfigured(
            "reading chunk windows is not configured here (retrieval_window_url is not set); use "
            "read_doc_pages or read_doc_section instead"
        )
