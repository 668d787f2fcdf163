"""Options for facts of documents, and warnings of imports, as the commands print them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from mcp_tools_proxy.documents.document_facts import parse_expiry, parse_metadata
from mcp_tools_proxy.documents.importers.base import one_line
from mcp_tools_proxy.documents.importers.warning_advice import ImportEntry, advice_on
from mcp_tools_proxy.domain.document import DocumentSource, ImportWarning, MetadataValue


def _check_fields(values: list[str] | None) -> list[str] | None:
    parse_fields(values)
    return values


def _check_date(value: str | None) -> str | None:
    if value:
        try:
            datetime.strptime(value, "%Y-%m-%d")  # noqa: DTZ007 - a date only
        except ValueError:
            raise typer.BadParameter("it should be a date such as 2027-01-31") from None
    return value


def _check_expiry(value: str | None) -> str | None:
    parse_time(value)
    return value


OwnFields = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        metavar="KEY=VALUE",
        callback=_check_fields,
        help="An own field of the document. May be repeated; a repeated key has a list.",
    ),
]
OwnDate = Annotated[
    str | None,
    typer.Option("--date", callback=_check_date, help="The document's own date: 2027-01-31."),
]
Untrusted = Annotated[
    bool,
    typer.Option(
        "--untrusted",
        help="Mark the documents as text that strangers could write, for policies over runs. "
        "Replaced documents keep the mark.",
    ),
]
Expires = Annotated[
    str | None,
    typer.Option(
        "--expires",
        metavar="TIME",
        callback=_check_expiry,
        help="When the document expires: 30d, 2027-01-31 (its start in UTC), or a full time.",
    ),
]


def parse_fields(values: list[str] | None) -> dict[str, MetadataValue]:
    """Return the own fields in an option. Raises BadParameter."""
    try:
        return parse_metadata(values or ())
    except ValueError as error:
        raise typer.BadParameter(f"it {error}") from None


def parse_time(value: str | None) -> datetime | None:
    """Return the time in an option; None if it is empty. Raises BadParameter."""
    try:
        return parse_expiry(value, datetime.now(UTC)) if value else None
    except ValueError as error:
        raise typer.BadParameter(f"it {error}") from None


def spell_warning(warning: ImportWarning, source: DocumentSource | None) -> str:
    """Return a warning with advice as one line."""
    advice = advice_on(warning, ImportEntry.CLI, None if source is None else source.path)
    return one_line(f"{warning.message.rstrip('.')}. {advice}" if advice else warning.message)


def warning_facts(
    warnings: Sequence[ImportWarning], source: DocumentSource | None
) -> list[dict[str, str | None]]:
    """Return warnings for JSON."""
    path = None if source is None else source.path
    return [
        {"code": it.code, "message": it.message, "advice": advice_on(it, ImportEntry.CLI, path)}
        for it in warnings
    ]
