"""Builds the indexes of tenants over a store, in the folder for what is made anew."""

from pathlib import Path
from urllib.parse import urlsplit

from mcp_tools_proxy.documents import cache_folder
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import DocumentStore
from mcp_tools_proxy.documents.tenant_search.tenant_documents import TenantDocuments
from mcp_tools_proxy.documents.tenant_search.tenant_indexes import TenantIndexes


def build_search_indexes(
    store: DocumentStore,
    repository: DocumentRepository,
    *,
    cache_dir: Path | None,
    folder: Path,
    url: str | None,
) -> TenantIndexes:
    """Build the indexes of a folder, or of the database of a URL."""
    origin = str(folder.absolute()) if url is None else _database_of(url)
    documents = TenantDocuments(store, repository.held)
    indexes = TenantIndexes(cache_dir or cache_folder.default_folder(), origin, documents)
    repository.listen(indexes)
    return indexes


def _database_of(url: str) -> str:
    """Return the part of a URL that names the database, without its user and password."""
    parts = urlsplit(url)
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"
