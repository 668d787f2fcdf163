"""The document that ships with the service, for ``mock_mode`` (contract T-05)."""

from importlib import resources

from mcp_tools_proxy.documents.document_file import read_document
from mcp_tools_proxy.domain.document import Document


def seed_documents() -> tuple[Document, ...]:
    """Return the built-in documents: ``doc_1`` of ``tenant_1``, twelve pages on LDAP."""
    resource = resources.files("mcp_tools_proxy.documents") / "seed" / "doc_1.json"
    with resources.as_file(resource) as path:
        return (read_document(path),)
