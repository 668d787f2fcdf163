"""The settings of where documents are kept; the ``documents`` commands read these and no others."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from mcp_tools_proxy.documents.folder.file_scan import MAX_FILE_BYTES, largest_file
from mcp_tools_proxy.documents.importers.base import check_languages
from mcp_tools_proxy.settings.embeddings import EmbeddingsSettings
from mcp_tools_proxy.settings.types import (
    Count,
    Seconds,
    TextList,
    empty_is_unset,
    not_empty,
    starting_with,
)

_PostgresUrl = Annotated[
    SecretStr | None,
    BeforeValidator(empty_is_unset),
    starting_with("postgresql://", "postgres://"),
]


class DocumentSettings(EmbeddingsSettings):
    """Where documents are kept and cached. The commands work while other settings are invalid."""

    documents_path: Annotated[Path, BeforeValidator(not_empty)] = Path("./documents")
    """Folder of document files (contract §5); it may not exist yet."""
    documents_url: _PostgresUrl = None
    """PostgreSQL that holds the documents in place of the folder: ``postgresql://`` and a role
    that owns nothing."""
    documents_owner_url: _PostgresUrl = None
    """The same database as its owner: for ``documents migrate``, and for commands over all tenants.
    Where ``serve`` has it, it migrates at its start."""
    documents_timeout: Seconds = 2.0
    """Seconds that one call may wait for the database in all."""
    documents_stale_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    """Seconds that cached documents are served while the database is not reachable; 0 is never."""
    documents_cache_bytes: Count = 67_108_864
    """Bytes of memory for texts and search indexes of the documents used last."""
    documents_keep_versions: Count = 2
    """Versions of each document that are kept: the present one, and those that imports and uploads
    replaced last; 1 keeps the present one only."""
    documents_keep_originals: bool = False
    """Keep the PDF that a document is imported from, so that ``view_doc_page`` shows its pages; one
    over ``max_document_bytes`` is not kept."""
    cache_dir: Annotated[Path | None, BeforeValidator(empty_is_unset)] = None
    """Folder for what is known of document files, so that the next start reads none of them again,
    for the indexes of ``search_documents``, and for the definitions that servers listed last;
    unset, one of this user in the system's temporary folder."""
    max_document_bytes: Count = 67_108_864
    """Bytes of one document that is uploaded."""
    ocr_languages: Annotated[TextList, AfterValidator(check_languages)] = ()
    """Languages, as Tesseract names them (``eng,deu``), in which an import reads pages that are
    pictures; empty is off. Takes the extra ``ocr``."""
    ocr_timeout_s: Seconds = 900.0
    """Seconds, and seconds of CPU, for one import with OCR."""

    @property
    def max_file_bytes(self) -> int:
        """The size of the largest file of a document that is read: uploads and imports write it."""
        return max(MAX_FILE_BYTES, largest_file(self.max_document_bytes))

    @property
    def max_original_bytes(self) -> int | None:
        """Up to which size PDFs are kept; None where they are not."""
        return self.max_document_bytes if self.documents_keep_originals else None
