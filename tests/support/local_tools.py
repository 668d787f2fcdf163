from collections.abc import Iterable, Iterator, Mapping

from mcp_tools_proxy.documents.tools.local_tools import EXAMPLES

LOCAL_TOOLS = tuple(EXAMPLES)
"""The permanent tools."""

LISTED_TOOLS = tuple(name for name in LOCAL_TOOLS if name != "read_chunk_window")
"""The listed tools if no source of chunk windows is configured."""

LOCAL_TEMPLATES = ("doc://{doc_id}", "doc://{doc_id}/pages/{from}-{to}")
"""The templates of the gateway's own resources, which come first in every list of templates."""


def of_servers(templates: Iterable[str]) -> list[str]:
    return [template for template in templates if template not in LOCAL_TEMPLATES]


def document_calls() -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield each tool that takes a document, with the other arguments of its example."""
    for name, arguments in EXAMPLES.items():
        if "doc_id" in arguments:
            yield name, {key: value for key, value in arguments.items() if key != "doc_id"}
