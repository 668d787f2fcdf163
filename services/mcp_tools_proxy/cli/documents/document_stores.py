"""Opens the store for the ``documents`` commands: the folder, or PostgreSQL."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote, urlsplit

import typer
from pydantic import SecretStr

from mcp_tools_proxy.cli.options import identifier
from mcp_tools_proxy.cli.output import echo
from mcp_tools_proxy.documents.document_store import DatabaseProblem
from mcp_tools_proxy.documents.document_writer import (
    DocumentWriter,
    ReadOnlyDocuments,
    TenantNeeded,
    WriteFailed,
)
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache, VectorFile
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.folder.folder_writer import FolderWriter
from mcp_tools_proxy.documents.importers.base import one_line
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.settings.documents import DocumentSettings
from mcp_tools_proxy.storage.cache_folder import default_folder

TenantOfDocuments = Annotated[
    str, typer.Option("--tenant", callback=identifier, help="The tenant of the documents.")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--documents-path",
        help="The documents folder; by default the database in MCP_PROXY_DOCUMENTS_URL, otherwise "
        "the folder in MCP_PROXY_DOCUMENTS_PATH.",
    ),
]

LoadSettings = Callable[[], DocumentSettings]
"""Reads the settings when a command runs; may raise ``typer.Exit``."""

POSTGRES = ("postgresql://", "postgres://")

T = TypeVar("T")


class Unusable(Exception):
    """The settings or store are unusable for a command; the text is one line."""


def print_removed(doc_id: str, path: Path) -> None:
    """Print that a file of a document was removed."""
    echo(f"{doc_id}  removed  {path}")


async def print_unusable(writer: DocumentWriter, key: tuple[str, str]) -> None:
    """Print the problems of a document's files, or that it does not exist."""
    problems = await writer.problems_of(key)
    for place, reason in problems.items():
        echo(f"{place}: {reason}", err=True)
    if not problems:
        print_missing(writer, key)


def print_missing(writer: DocumentWriter, key: tuple[str, str]) -> None:
    """Print that a tenant does not have a document."""
    echo(
        f"{key[1]}: tenant {key[0]} does not have this document in {writer.name}; run documents "
        "list to see its documents",
        err=True,
    )


def run_command(command: Coroutine[Any, Any, T]) -> T:
    """Run a command; print failures as one line on stderr and exit with 1.

    SIGTERM cancels it like Ctrl+C, which also ends import processes.
    """
    try:
        return asyncio.run(_until_terminated(command))
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None
    except (
        DocumentsUnavailable,
        ReadOnlyDocuments,
        WriteFailed,
        Unusable,
        DatabaseProblem,
        TenantNeeded,
    ) as error:
        reason = error.reason if isinstance(error, DocumentsUnavailable) else None
        echo(f"{error}{f' ({reason})' if reason else ''}", err=True)
        raise typer.Exit(1) from None


async def _until_terminated(command: Coroutine[Any, Any, T]) -> T:
    """Run a command until SIGTERM cancels it; a second SIGTERM ends the process immediately."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()

    def cancel() -> None:
        loop.remove_signal_handler(signal.SIGTERM)  # a thread may wait long for a lock
        if task is not None:
            task.cancel()

    if threading.current_thread() is threading.main_thread():
        loop.add_signal_handler(signal.SIGTERM, cancel)
    return await command


@asynccontextmanager
async def open_writer(
    settings: DocumentSettings,
    folder: Path | None,
    *,
    tenant_id: str | None,
    on_removed: Callable[[str, Path], None] = print_removed,
) -> AsyncIterator[DocumentWriter]:
    """Open the folder in the option, otherwise the store in the settings.

    ``tenant_id`` None means the documents of all tenants; PostgreSQL is then opened as the owner.
    """
    url = _database_url(settings, tenant_id)
    if folder is not None or url is None:
        root = folder or settings.documents_path
        async with _open_folder(root, settings, on_removed) as writer:
            yield writer
    else:
        async with _open_database(url, settings) as writer:
            yield writer


@asynccontextmanager
async def open_url(
    url: str, settings: DocumentSettings, *, must_exist: bool
) -> AsyncIterator[DocumentWriter]:
    """Open a URL: PostgreSQL, or the path of a folder. Raises Unusable.

    With ``must_exist``, also for a missing folder, so that a misspelled path is not taken as an
    empty folder.
    """
    if url.startswith(POSTGRES):
        async with _open_database(url, settings) as writer:
            yield writer
        return
    path = unquote(urlsplit(url).path) if url.startswith("file://") else url
    if "://" in path or not path:
        raise Unusable("--from and --to take postgresql://… or the path of a folder")
    if must_exist and not await asyncio.to_thread(Path(path).is_dir):
        raise Unusable(f"{one_line(path)} is not a folder: name the source folder with --from")
    async with _open_folder(Path(path), settings, lambda _doc_id, _path: None) as writer:
        yield writer


def _database_url(settings: DocumentSettings, tenant_id: str | None) -> str | None:
    """Return the database URL, the owner's for all tenants. Raises Unusable if it is missing."""
    if settings.documents_url is None:
        return None
    chosen: SecretStr | None = settings.documents_url
    if tenant_id is None:
        chosen = settings.documents_owner_url
    if chosen is None:
        raise Unusable(
            "only the owner of the database can read the documents of all tenants: set "
            "MCP_PROXY_DOCUMENTS_OWNER_URL, or name a --tenant"
        )
    return chosen.get_secret_value()


@asynccontextmanager
async def _open_folder(
    root: Path, settings: DocumentSettings, on_removed: Callable[[str, Path], None]
) -> AsyncIterator[DocumentWriter]:
    """Open a folder, and read files that are not in the cache."""
    folder = settings.cache_dir or default_folder()
    store = FolderStore(
        root,
        ScanCache(folder, root),
        vectors=VectorFile(folder, root),
        max_file_bytes=settings.max_file_bytes,
    )
    await store.load()
    await store.scan_all()
    try:
        yield FolderWriter(
            store,
            shown_root=root,
            on_removed=on_removed,
            keep_versions=settings.documents_keep_versions,
        )
    finally:
        store.close()


@asynccontextmanager
async def _open_database(url: str, settings: DocumentSettings) -> AsyncIterator[DocumentWriter]:
    # asyncpg is slow to import
    from mcp_tools_proxy.documents.postgres.database import Database  # noqa: PLC0415
    from mcp_tools_proxy.documents.postgres.writer import PostgresWriter  # noqa: PLC0415

    writer = PostgresWriter(
        Database(url, timeout_s=settings.documents_timeout),
        keep_versions=settings.documents_keep_versions,
    )
    try:
        yield writer
    finally:
        await writer.close()
