"""The settings of where documents are kept, and of the service that makes vectors of their texts.

The ``documents`` commands read these and no others.
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from mcp_tools_proxy.documents.folder.file_scan import MAX_FILE_BYTES, largest_file
from mcp_tools_proxy.documents.importers.base import check_languages
from mcp_tools_proxy.documents.retention import parse_rules
from mcp_tools_proxy.settings.types import (
    POSTGRES_SCHEMES,
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
    """Full URL of an OpenAI-compatible ``/embeddings`` service, which receives texts of documents
    and queries. Unset: search by words only."""
    embeddings_model: OptionalText = None
    """Model in each request; required with the URL. A change computes the vectors again."""
    embeddings_api_key: Annotated[
        SecretStr | None, BeforeValidator(empty_is_unset), AfterValidator(is_token)
    ] = None
    """Bearer token sent to that service."""
    embeddings_batch: Annotated[int, Field(ge=1, le=256)] = 32
    """Chunks in one request."""
    embeddings_timeout: Seconds = 30.0
    """Seconds for one request for chunks."""
    embeddings_query_timeout: Seconds = 0.5
    """Seconds that a search waits for its query's vector; then it searches by words only."""
    embeddings_min_similarity: Annotated[float, Field(ge=0, le=1)] = 0.35
    """Minimum cosine similarity of query and chunk for a match."""

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
    starting_with(*POSTGRES_SCHEMES),
]


def _checked_rules(texts: tuple[str, ...]) -> tuple[str, ...]:
    parse_rules(texts)
    return texts


class DocumentSettings(EmbeddingsSettings):
    """Where documents are kept and cached. The commands work while other settings are invalid."""

    documents_path: Annotated[Path, BeforeValidator(not_empty)] = Path("./documents")
    """Folder of document files (contract §5); may be created later."""
    documents_url: _PostgresUrl = None
    """PostgreSQL database for the documents, instead of the folder: a ``postgresql://`` URL with a
    role that owns nothing."""
    documents_owner_url: _PostgresUrl = None
    """The same database with its owner's role, for ``documents migrate`` and commands for all
    tenants. If ``serve`` has it, it migrates at the start."""
    documents_timeout: Seconds = 2.0
    """Total seconds per call to wait for the database."""
    documents_stale_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    """Seconds to serve cached documents while the database is unreachable; 0 is never."""
    documents_cache_bytes: Count = 67_108_864
    """Bytes of memory for texts and search indexes of recently used documents."""
    documents_keep_versions: Count = 2
    """Versions to keep of each document, with the current one."""
    documents_retention: Annotated[TextList, AfterValidator(_checked_rules)] = ()
    """Maximum ages of documents by tag, such as ``minutes:30d,law:never,*:365d``: after that time
    without a change they are removed. The first rule that matches decides; ``*`` matches all."""
    documents_keep_originals: bool = False
    """Keep PDFs for ``view_doc_page``, up to max_document_bytes."""
    cache_dir: Annotated[Path | None, BeforeValidator(empty_is_unset)] = None
    """Folder for document metadata, so that a restart does not read every file, indexes of
    ``search_documents``, and servers' definitions. Unset: a folder of the current user in the
    system's temporary folder."""
    max_document_bytes: Count = 67_108_864
    """Maximum bytes of an uploaded document."""
    ocr_languages: Annotated[TextList, AfterValidator(check_languages)] = ()
    """Languages for OCR of imported scans, by Tesseract's names (``eng,deu``). Empty: off. Requires
    the extra ``ocr``."""
    import_link_targets: bool = True
    """Keep the addresses of links in imported text, not only their text."""
    import_notes: bool = True
    """Keep reviewers' notes and comments of imported files."""
    ocr_timeout_s: Seconds = 900.0
    """Maximum seconds, and CPU seconds, of an import with OCR."""

    @property
    def max_file_bytes(self) -> int:
        """The size of the largest file of a document that is read: uploads and imports write it."""
        return max(MAX_FILE_BYTES, largest_file(self.max_document_bytes))

    @property
    def max_original_bytes(self) -> int | None:
        """Up to which size PDFs are kept; None where they are not."""
        return self.max_document_bytes if self.documents_keep_originals else None
