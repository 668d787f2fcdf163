"""The local tools by name, in the order of every list: a new one is added here; and templates."""

from collections.abc import Iterable

LOCAL_TOOLS = (
    "read_doc_section",
    "read_doc_pages",
    "read_doc_metadata",
    "doc_local_search",
    "read_chunk_window",
    "list_documents",
    "search_documents",
    "verify_quote",
    "list_available_tools",
)

LISTED_TOOLS = tuple(name for name in LOCAL_TOOLS if name != "read_chunk_window")
"""Those that lists show while no source of chunk windows is configured."""

LOCAL_TEMPLATES = ("doc://{doc_id}", "doc://{doc_id}/pages/{from}-{to}")
"""The templates of the gateway's own resources, which come first in every list of templates."""


def of_servers(templates: Iterable[str]) -> list[str]:
    """Return the templates of a list that are servers'."""
    return [template for template in templates if template not in LOCAL_TEMPLATES]
