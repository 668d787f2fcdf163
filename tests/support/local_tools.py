"""The local tools by name, in the order of every list: a new one is added here."""

LOCAL_TOOLS = (
    "read_doc_section",
    "read_doc_pages",
    "read_doc_metadata",
    "doc_local_search",
    "read_chunk_window",
    "list_available_tools",
)
