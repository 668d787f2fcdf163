"""The command ``documents remove``."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mcp_tools_proxy.cli.documents.document_files import all_heads
from mcp_tools_proxy.cli.documents.document_stores import (
    Folder,
    LoadSettings,
    TenantOfDocuments,
    open_writer,
    print_missing,
    print_removed,
    run_command,
)
from mcp_tools_proxy.cli.output import AsJson, counted, echo, print_json
from mcp_tools_proxy.documents.document_store import filter_of_tag
from mcp_tools_proxy.documents.document_writer import DocumentWriter, Expected, NoSuchDocument
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.wire.problem_texts import join_first
from mcp_tools_proxy.wire.text import quote

MAX_NAMED = 20
"""Documents named in the question for confirmation."""

_DocIds = Annotated[
    list[str] | None, typer.Argument(metavar="DOC_ID", help="Document ids, as listed.")
]
_Tag = Annotated[str | None, typer.Option("--tag", help="Remove the documents with this tag.")]
_All = Annotated[bool, typer.Option("--all", help="Remove all documents of the tenant.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def add_remove(app: typer.Typer, load_settings: LoadSettings) -> None:
    """Add the command."""

    @app.command("remove")
    def remove(
        tenant: TenantOfDocuments,
        doc_ids: _DocIds = None,
        tag: _Tag = None,
        of_tenant: _All = False,
        dry_run: _DryRun = False,
        yes: _Yes = False,
        as_json: AsJson = False,
        documents_path: Folder = None,
    ) -> None:
        """Remove documents: those named, those with a tag, or all of a tenant.

        A running gateway stops serving them within a second; running calls finish.

        On a terminal the command asks for confirmation. If a named document does not exist, the
        exit code is 1.
        """
        if [bool(doc_ids), tag is not None, of_tenant].count(True) != 1:
            raise typer.BadParameter("name documents, or use --tag or --all")
        settings = load_settings()
        wanted = list(dict.fromkeys(doc_ids or ()))
        on_removed = _ignore if as_json else print_removed

        async def remove_all() -> list[str] | None:
            async with open_writer(
                settings, documents_path, tenant_id=tenant, on_removed=on_removed
            ) as writer:
                removal = _Removal(writer, tenant, as_json=as_json)
                await (removal.choose(wanted) if wanted else removal.choose_all(tag))
                if dry_run:
                    return removal.print_chosen()
                asks = bool(removal.chosen) and not yes and sys.stdin.isatty()
                if asks and not removal.is_confirmed():
                    echo("nothing was removed", err=True)
                    return None
                return await removal.remove()

        removed = run_command(remove_all())
        if as_json and removed is not None:
            missing = [doc_id for doc_id in wanted if doc_id not in removed]
            print_json({"removed": removed, "missing": missing})
        if removed is None or len(removed) < len(wanted):
            raise typer.Exit(1)


class _Removal:
    """The removal of documents of a tenant; ``chosen`` has their heads by id, if valid."""

    def __init__(self, writer: DocumentWriter, tenant_id: str, *, as_json: bool) -> None:
        self.chosen: dict[str, DocumentHead | None] = {}
        self._writer = writer
        self._tenant_id = tenant_id
        self._as_json = as_json

    async def choose(self, doc_ids: Sequence[str]) -> None:
        """Choose the existing ones of some documents, including invalid ones; print the others."""
        for doc_id in doc_ids:
            key = (self._tenant_id, doc_id)
            if await self._writer.head(key) is not None or await self._writer.problems_of(key):
                self.chosen[doc_id] = None
            else:
                print_missing(self._writer, key)

    async def choose_all(self, tag: str | None) -> None:
        """Choose the documents with a tag, or all."""
        wanted = None if tag is None else filter_of_tag(tag)
        heads = await all_heads(self._writer, self._tenant_id, wanted)
        self.chosen = {head.doc_id: head for head in heads}

    def print_chosen(self) -> list[str]:
        """Print and return the ids of the documents."""
        for doc_id in () if self._as_json else self.chosen:
            echo(f"{doc_id}  would be removed")
        return list(self.chosen)

    def is_confirmed(self) -> bool:
        """Ask for confirmation."""
        what = join_first(
            list(self.chosen), quote, limit=MAX_NAMED, separator=", ", more=" and {} more"
        )
        number = f"{counted(len(self.chosen), 'document')} of tenant {quote(self._tenant_id)}"
        return typer.confirm(f"Remove {number}: {what}?", err=True)

    async def remove(self) -> list[str]:
        """Remove the documents, except those changed since they were chosen by a tag."""
        return [doc_id for doc_id, head in self.chosen.items() if await self._remove(doc_id, head)]

    async def _remove(self, doc_id: str, head: DocumentHead | None) -> bool:
        key = (self._tenant_id, doc_id)
        try:
            if head is None:
                await self._writer.remove(key, expected=Expected.ANYTHING)
            elif not await self._writer.remove_unchanged(head):
                return False
        except NoSuchDocument:  # removed by another process
            return True
        if not self._as_json and self._writer.place(key) == "postgresql":
            echo(f"{doc_id}  removed  from {self._writer.name}")
        return True


def _ignore(_doc_id: str, _path: Path) -> None:
    """Print nothing, because the result is JSON."""
