"""The gateway's document tools, and the choice of them."""

from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

DOCUMENT_TOOLS = (
    *("read_doc_section", "read_doc_pages", "read_doc_metadata", "doc_local_search"),
    *("read_chunk_window", "list_documents", "search_documents", "verify_quote", "view_doc_page"),
)
"""The names of the document tools, in the order of all lists."""

READS_RESOURCES = "read_doc_pages"
"""The tool whose rules apply to documents' resources: they exist only together with it."""

_KNOWN = ", ".join(DOCUMENT_TOOLS)

ALL, NONE = "all", "none"


def chosen_tools(choice: object) -> frozenset[str] | None:
    """Return the chosen tools, None for all. Raises ValueError for an invalid choice."""
    names = tuple(choice) if isinstance(choice, list | tuple) else (choice,)
    if names == (ALL,):
        return None
    if names == (NONE,):
        return frozenset()
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"should be all, none, or a list of {_KNOWN}")  # noqa: TRY004 - pydantic
        if name not in DOCUMENT_TOOLS:
            near = did_you_mean(closest_match(name, DOCUMENT_TOOLS))
            message = f"{quote(name)} is not a document tool{near}"
            raise ValueError(f"{message}; use all, none, or a list of {_KNOWN}")
    return frozenset(map(str, names))


def is_turned_off(name: str, chosen: frozenset[str] | None) -> bool:
    """Return whether a name belongs to a document tool that was not chosen."""
    return chosen is not None and name in DOCUMENT_TOOLS and name not in chosen
