"""The ``documents rights`` command: who may read a document."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from mcp_tools_proxy.cli.options import identifiers
from mcp_tools_proxy.documents.document_file import InvalidDocument, write_document
from mcp_tools_proxy.documents.importers.base import one_line
from mcp_tools_proxy.domain.document import Document, Readers

Users = Annotated[
    list[str] | None,
    typer.Option(
        "--user", callback=identifiers, help="A user who may read it; may be given several times."
    ),
]
Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        callback=identifiers,
        help="A role whose users may read it; may be given several times.",
    ),
]
ForAll = Annotated[bool, typer.Option("--everybody", help="All of the tenant may read it.")]
ForNone = Annotated[bool, typer.Option("--nobody", help="None of the tenant may read it.")]


def wanted_readers(
    users: list[str] | None, roles: list[str] | None, *, for_all: bool, for_none: bool
) -> Readers | None:
    """Return the readers that options name; None for all of the tenant.

    Raises BadParameter unless exactly one kind of answer is given.
    """
    is_some = bool(users or roles)
    if [is_some, for_all, for_none].count(True) != 1:
        raise typer.BadParameter("name --user and --role, or --everybody, or --nobody")
    return None if for_all else Readers(users=frozenset(users or ()), roles=frozenset(roles or ()))


def set_readers(root: Path, found: tuple[Document, Path], readers: Readers | None) -> bool:
    """Write a document with other readers; print the result, and return whether it was written."""
    document, path = found
    changed = dataclasses.replace(document, readers=readers)
    try:
        written = write_document(root, changed, replace=True)
    except InvalidDocument as error:
        typer.echo(f"{path}: {error.reason}", err=True)
        return False
    except OSError as error:
        typer.echo(f"{root} cannot be written: {error.strerror}", err=True)
        return False
    typer.echo(f"{document.doc_id}  {spell_readers(readers)}  -> {written}")
    return True


def spell_readers(readers: Readers | None) -> str:
    """Return readers for a person: ``user ann, role audit``."""
    if readers is None:
        return "all of the tenant"
    named = [f"user {one_line(user)}" for user in sorted(readers.users)]
    named += [f"role {one_line(role)}" for role in sorted(readers.roles)]
    return ", ".join(named) or "nobody"
