"""The settings of where documents are kept, and of the service that makes vectors of their texts.

The ``documents`` commands read these and no others.
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from mcp_tools_proxy.documents.folder.file_scan import MAX_FILE_BYTES, largest_file
from mcp_tools_proxy.documents.importers.base import check_languages
from mcp_tools_proxy.settings.types import (
    Count,
    EnvironmentSettings,
    OptionalText,
    Seconds,
    TextList,
    empty_is_unset,
    is_token,
    not_empty,
    starting_with,
    variable,
)


class EmbeddingsSettings(EnvironmentSettings):
    """Which service makes vectors, and how long is waited for it."""

    embeddings_url: Annotated[
        str | None, BeforeValidator(empty_is_unset), starting_with("http://", "https://")
    ] = None
    """Full URL of an OpenAI-compatible ``/embeddings`` service for search by meaning. It receives
    the texts of documents and queries. Unset: search by words only."""
    embeddings_model: OptionalText = None
    """Model named in each request; required with the URL. If it changes, vectors are computed
    again."""
    embeddings_api_key: Annotated[
        SecretStr | None, BeforeValidator(empty_is_unset), AfterValidator(is_token)
    ] = None
    """Bearer token sent to that service."""
    embeddings_batch: Annotated[int, Field(ge=1, le=256)] = 32
    """Chunks of a document in one request, at most 256."""
    embeddings_timeout: Seconds = 30.0
    """Total seconds for one request for chunks."""
    embeddings_query_timeout: Seconds = 0.5
    """Seconds that a search waits for the vector of its query, before it searches by words only."""
    embeddings_min_similarity: Annotated[float, Field(ge=0, le=1)] = 0.35
    """Minimum cosine similarity of query and chunk for a match by meaning."""

    @model_validator(mode="after")
    def _check_embeddings(self) -> Self:
        """Check that a service has a model. Raises ValueError naming the variable."""
        if self.embeddings_url is not None and self.embeddings_model is None:
            raise ValueError(
                f"{variable('embeddings_model')}: is required if {variable('embeddings_url')} is "
                "set"
            )
        return self


_PostgresUrl = Annotated[
    SecretStr | None,
    BeforeValidator(empty_is_unset),
    starting_with("postgresql://", "postgres://"),
]


class DocumentSettings(EmbeddingsSettings):
    """Where documents are kept and cached. The commands work while other settings are invalid."""

    documents_path: Annotated[Path, BeforeValidator(not_empty)] = Path("./documents")
    """Folder of document files (contract §5); it may be created later."""
    documents_url: _PostgresUrl = None
    """PostgreSQL database for the documents, instead of the folder: a ``postgresql://`` URL with a
    role that owns nothing."""
    documents_owner_url: _PostgresUrl = None
    """The same database with its owner's role: for ``documents migrate`` and for commands that
    cover all tenants. If ``serve`` has it, it migrates at the start."""
    documents_timeout: Seconds = 2.0
    """Total seconds that one call may wait for the database."""
    documents_stale_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    """Seconds that cached documents are still served while the database is unreachable; 0 never
    serves them."""
    documents_cache_bytes: Count = 67_108_864
    """Memory for texts and search indexes of recently used documents, in bytes."""
    documents_keep_versions: Count = 2
    """Versions to keep of each document: the current one and the last ones replaced by imports and
    uploads. 1 keeps only the current one."""
    documents_keep_originals: bool = False
    """Keep the PDF from which a document is imported, so that ``view_doc_page`` can show its pages.
    PDFs larger than ``max_document_bytes`` are not kept."""
    cache_dir: Annotated[Path | None, BeforeValidator(empty_is_unset)] = None
    """Cache folder: document metadata, so that a restart does not read every file again; the
    indexes of ``search_documents``; and the definitions that servers listed last. Unset: a folder
    of the current user in the system's temporary folder."""
    max_document_bytes: Count = 67_108_864
    """Maximum size of an uploaded document, in bytes."""
    ocr_languages: Annotated[TextList, AfterValidator(check_languages)] = ()
    """Languages for OCR of scanned pages during an import, by Tesseract's names (``eng,deu``).
    Empty: off. Requires the extra ``ocr``."""
    ocr_timeout_s: Seconds = 900.0
    """Maximum seconds, and maximum CPU seconds, for one import with OCR."""

    @property
    def max_file_bytes(self) -> int:
        """The size of the largest file of a document that is read: uploads and imports write it."""
        return max(MAX_FILE_BYTES, largest_file(self.max_document_bytes))

    @property
    def max_original_bytes(self) -> int | None:
        """Up to which size PDFs are kept; None where they are not."""
        return self.max_document_bytes if self.documents_keep_originals else None
