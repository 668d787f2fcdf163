"""The ``documents`` command and its sub-commands ``copy`` and ``migrate``.

``copy`` copies from one store to another, and verifies each copy.
"""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mcp_tools_proxy.cli.documents.document_files import (
    add_edit,
    add_list,
    add_rights,
    add_show,
    all_heads,
)
from mcp_tools_proxy.cli.documents.document_import import add_import
from mcp_tools_proxy.cli.documents.document_removal import add_remove
from mcp_tools_proxy.cli.documents.document_stores import LoadSettings, open_url, run_command
from mcp_tools_proxy.cli.options import identifiers
from mcp_tools_proxy.cli.output import AsJson, counted, echo, fail, print_json
from mcp_tools_proxy.documents.document_file import InvalidDocument
from mcp_tools_proxy.documents.document_writer import (
    DocumentWriter,
    Expected,
    ReadOnlyDocuments,
    VersionConflict,
    WriteFailed,
)
from mcp_tools_proxy.documents.folder.file_scan import canonical_name
from mcp_tools_proxy.documents.folder.folder_writer import FolderWriter
from mcp_tools_proxy.documents.importers.base import one_line
from mcp_tools_proxy.documents.versions import head_of
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.settings.types import secret_text
from mcp_tools_proxy.wire.text import file_name_text

AT_ONCE = 8
"""Documents copied concurrently; each is completely in memory."""

_From = Annotated[
    str, typer.Option("--from", metavar="URL", help="Source: postgresql://… or a folder.")
]
_To = Annotated[
    str, typer.Option("--to", metavar="URL", help="Target: postgresql://… or a folder.")
]
_Tenants = Annotated[
    list[str] | None,
    typer.Option(
        "--tenant",
        callback=identifiers,
        help="Copy only documents of this tenant. May be repeated.",
    ),
]
_Replace = Annotated[
    bool,
    typer.Option("--replace", help="Replace documents of a different version in the target."),
]


def add_copy(app: typer.Typer, load_settings: LoadSettings) -> None:
    """Add the command."""

    @app.command("copy")
    def copy(
        source: _From,
        target: _To,
        tenants: _Tenants = None,
        replace: _Replace = False,
        as_json: AsJson = False,
    ) -> None:
        """Copy documents and their readers from a folder to PostgreSQL, or back.

        Each copy is read back and its SHA-256 compared. Documents that the target has in the
        same version are skipped, so an interrupted copy can be run again.

        Only the owner of a database can copy the documents of all tenants.

        With --json: copied, unchanged and failed. Exits with 1 if a copy failed.
        """
        settings = load_settings()

        async def copy_all() -> _Copies:
            async with (
                open_url(source, settings, must_exist=True) as read,
                open_url(target, settings, must_exist=False) as write,
            ):
                copies = _Copies(read, write, replace=replace)
                copies.unusable = _unusable_files(read, tenants)
                wanted: list[str | None] = [*tenants] if tenants else [None]
                heads = [head for tenant in wanted for head in await all_heads(read, tenant)]
                with _bar(len(heads)) as show:
                    await copies.copy_all(heads, show)
                return copies

        copies = run_command(copy_all())
        copies.print(as_json=as_json)
        if copies.failures or copies.unusable:
            raise typer.Exit(1)


class _Copies:
    """Copies documents concurrently; a failure does not stop the others."""

    def __init__(self, source: DocumentWriter, target: DocumentWriter, *, replace: bool) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: dict[tuple[str, str], str] = {}
        self.unusable: Mapping[str, str] = {}
        """Reasons by name of the source's unreadable files."""
        self._source = source
        self._target = target
        self._replace = replace

    async def copy_all(self, heads: list[DocumentHead], show: Callable[[int], None]) -> None:
        """Copy all documents; call ``show`` with the number of finished ones."""
        waiting = iter(heads)

        async def work() -> None:
            for head in waiting:
                await self._copy(head)
                show(self.counts.total() + len(self.failures))

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())

    def print(self, *, as_json: bool) -> None:
        """Print the result and each failure."""
        if as_json:
            shown = {
                "copied": self.counts["copied"],
                "unchanged": self.counts["unchanged"],
                "failed": [
                    {"tenant_id": tenant_id, "doc_id": doc_id, "error": reason}
                    for (tenant_id, doc_id), reason in sorted(self.failures.items())
                ]
                + [
                    {"file": name, "error": reason}
                    for name, reason in sorted(self.unusable.items())
                ],
            }
            print_json(shown)
            return
        copied = counted(self.counts["copied"], "document")
        echo(
            f"{copied} copied and verified, {self.counts['unchanged']} unchanged, "
            f"{len(self.failures) + len(self.unusable)} failed"
        )
        for (tenant_id, doc_id), reason in sorted(self.failures.items()):
            echo(f"{one_line(tenant_id)}  {one_line(doc_id)}: {reason}", err=True)
        for name, reason in sorted(self.unusable.items()):
            echo(f"{name}: {reason}", err=True)

    async def _copy(self, head: DocumentHead) -> None:
        key = (head.tenant_id, head.doc_id)
        try:
            self.counts[await self._copy_one(head, key)] += 1
        except VersionConflict:
            self.failures[key] = "the target has a different version; to replace it, use --replace"
        except (InvalidDocument, ReadOnlyDocuments, WriteFailed, _NotTheSame) as error:
            self.failures[key] = str(error)
        except DocumentsUnavailable as error:
            self.failures[key] = f"{error} ({error.reason})"

    async def _copy_one(self, head: DocumentHead, key: tuple[str, str]) -> str:
        there = await self._target.head(key)
        if there == head:
            return "unchanged"
        document = await self._source.document(key)
        if document is None:
            raise _NotTheSame("it was removed from the source during the copy")
        expected: Expected | str = Expected.ANYTHING if self._replace else Expected.NOTHING
        if there is not None and there.version == head.version:
            expected = there.version  # only its readers, source or expiry differ
        await self._target.put(document, expected=expected, keep_readers=False)
        copied = await self._target.document(key)
        if copied is None or await asyncio.to_thread(head_of, copied) != head:
            raise _NotTheSame(
                "the copy in the target differs from the source; run the command again"
            )
        return "copied"


def _unusable_files(source: DocumentWriter, tenants: list[str] | None) -> Mapping[str, str]:
    """Return the folder's files that cannot be copied, for some tenants or all.

    Files outside of the tenants' folders are always included, because their tenant is unknown.
    """
    if not isinstance(source, FolderWriter):
        return {}
    folders = {str(canonical_name(tenant, "any")).partition("/")[0] for tenant in tenants or ()}
    return {
        file_name_text(name): reason
        for name, reason in source.unusable.items()
        if not folders or "/" not in name or name.partition("/")[0] in folders
    }


class _NotTheSame(Exception):
    """A copy differs from its source; the text is one line."""


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr if it is a terminal."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=False,
    )
    with bar:
        task = bar.add_task("documents", total=total)
        yield lambda done: bar.update(task, completed=done)


def add_migrate(app: typer.Typer, load_settings: LoadSettings) -> None:
    """Add the command."""

    @app.command("migrate")
    def migrate(as_json: AsJson = False) -> None:
        """Create or upgrade the schema in PostgreSQL, and the role of the gateway.

        Connects with MCP_PROXY_DOCUMENTS_OWNER_URL, which is required. The role in
        MCP_PROXY_DOCUMENTS_URL is created with the password given there; if it exists, only its
        permissions are set.

        With --json: before and after (numbers of the schema), role and created_role.
        """
        settings = load_settings()
        if settings.documents_owner_url is None:
            fail(
                "MCP_PROXY_DOCUMENTS_OWNER_URL: is required to migrate; set it to the URL of the "
                "database with the role of its owner"
            )
        owner_url = settings.documents_owner_url.get_secret_value()
        # asyncpg is slow to import
        from mcp_tools_proxy.documents.postgres import schema as migration  # noqa: PLC0415

        gateway_url = secret_text(settings.documents_url)
        done = run_command(migration.migrate(owner_url, gateway_url))
        if as_json:
            print_json(dataclasses.asdict(done))
            return
        if done.before == done.after:
            echo(f"the schema is already at number {done.after}")
        else:
            echo(f"migrated the schema from number {done.before} to {done.after}")
        if done.role is None:
            echo(
                "MCP_PROXY_DOCUMENTS_URL is not set, so no role was given permissions",
                err=True,
            )
        else:
            ready = "has the required permissions"
            made = f"was created and {ready}" if done.created_role else ready
            echo(f"the role {done.role} {made}")


def documents_app(load_settings: LoadSettings) -> typer.Typer:
    """Build the ``documents`` sub-command; ``load_settings`` is called when a command runs."""
    app = typer.Typer(
        name="documents",
        help="Import, list, show, copy and remove documents, and control who may read them.\n\n"
        "These commands use PostgreSQL if MCP_PROXY_DOCUMENTS_URL is set, otherwise the folder in "
        "MCP_PROXY_DOCUMENTS_PATH. They read no other settings than those of documents.",
        rich_markup_mode=None,
    )
    add_import(app, load_settings)
    add_list(app, load_settings)
    add_show(app, load_settings)
    add_remove(app, load_settings)
    add_rights(app, load_settings)
    add_edit(app, load_settings)
    add_copy(app, load_settings)
    add_migrate(app, load_settings)
    return app
