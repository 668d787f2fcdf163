"""The ``documents rights`` command: who may read a document."""

from typing import Annotated

import typer

from mcp_tools_proxy.cli.documents.document_stores import (
    Folder,
    LoadSettings,
    open_writer,
    print_unusable,
    run_command,
)
from mcp_tools_proxy.cli.options import identifier, identifiers
from mcp_tools_proxy.cli.output import AsJson, echo, print_json
from mcp_tools_proxy.documents.document_file import dump_readers
from mcp_tools_proxy.documents.document_writer import Expected, NoSuchDocument
from mcp_tools_proxy.documents.importers.base import one_line
from mcp_tools_proxy.domain.document import Readers

_Users = Annotated[
    list[str] | None,
    typer.Option("--user", callback=identifiers, help="A user with access. May be repeated."),
]
_Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        callback=identifiers,
        help="A role with access. May be repeated.",
    ),
]
_ForAll = Annotated[bool, typer.Option("--everybody", help="Give all users of the tenant access.")]
_ForNone = Annotated[bool, typer.Option("--nobody", help="Remove access for all users.")]
_Owner = Annotated[
    str, typer.Option("--tenant", callback=identifier, help="The tenant of the document.")
]
_DocId = Annotated[str, typer.Argument(metavar="DOC_ID", help="The document's id, as listed.")]

_OLDER_VERSIONS = (
    "{count} older versions are kept and now have the same readers; to delete them, remove the "
    "document and import it again"
)


def add_rights(app: typer.Typer, load_settings: LoadSettings) -> None:
    """Add the command."""

    @app.command("rights")
    def rights(
        doc_id: _DocId,
        tenant: _Owner,
        users: _Users = None,
        roles: _Roles = None,
        for_all: _ForAll = False,
        for_none: _ForNone = False,
        as_json: AsJson = False,
        documents_path: Folder = None,
    ) -> None:
        """Set which users and roles may read a document.

        A user, or one of the user's roles, has to be named; all others lose access.

        A running gateway applies the change within a second.
        """
        readers = wanted_readers(users, roles, for_all=for_all, for_none=for_none)
        settings = load_settings()
        key = (tenant, doc_id)

        async def set_readers() -> tuple[str, int] | None:
            async with open_writer(settings, documents_path, tenant_id=tenant) as writer:
                try:
                    await writer.set_readers(key, readers, expected=Expected.ANYTHING)
                except NoSuchDocument:
                    await print_unusable(writer, key)
                    return None
                return writer.place(key), len(await writer.older_versions(key))

        written = run_command(set_readers())
        if written is None:
            raise typer.Exit(1)
        place, older_count = written
        if as_json:
            named = None if readers is None else dump_readers(readers)
            shown = {"doc_id": doc_id, "tenant_id": tenant, "readers": named, "place": place}
            print_json(shown)
        else:
            echo(f"{doc_id}  {spell_readers(readers)}  -> {place}")
        if older_count:
            echo(_OLDER_VERSIONS.format(count=older_count), err=True)


def wanted_readers(
    users: list[str] | None, roles: list[str] | None, *, for_all: bool, for_none: bool
) -> Readers | None:
    """Return the readers that options name; None for all of the tenant.

    Raises BadParameter unless exactly one kind of answer is given.
    """
    is_some = bool(users or roles)
    if [is_some, for_all, for_none].count(True) != 1:
        raise typer.BadParameter(
            "name readers with --user and --role, or use --everybody or --nobody"
        )
    return None if for_all else Readers(users=frozenset(users or ()), roles=frozenset(roles or ()))


def spell_readers(readers: Readers | None) -> str:
    """Return readers for a person: ``user ann, role audit``."""
    if readers is None:
        return "all users of the tenant"
    named = [f"user {one_line(user)}" for user in sorted(readers.users)]
    named += [f"role {one_line(role)}" for role in sorted(readers.roles)]
    return ", ".join(named) or "nobody"
