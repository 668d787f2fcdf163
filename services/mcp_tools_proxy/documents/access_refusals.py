"""What a caller reads that may not have a document."""

from mcp_tools_proxy.domain.errors import AccessDenied, DocumentNotFound
from mcp_tools_proxy.wire.text import quote


def access_denied(doc_id: str) -> AccessDenied:
    """Return the refusal of a document that is another's."""
    return AccessDenied(
        f"the user has no access to document {quote(doc_id)}; do not try again: use a "
        "doc_id that belongs to the user, or tell the user"
    )


def not_found(doc_id: str) -> DocumentNotFound:
    """Return the refusal of a document that is not there."""
    return DocumentNotFound(
        f"there is no document {quote(doc_id)}; check the doc_id letter by letter against the "
        "one you were given, or ask the user which document is meant"
    )
