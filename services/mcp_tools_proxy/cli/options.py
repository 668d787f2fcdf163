"""Checks of options that several commands have."""

import typer

from mcp_tools_proxy.documents.importers.base import check_languages
from mcp_tools_proxy.wire.identifiers import document_ids, is_identifier


def identifier(value: str | None) -> str | None:
    """Check a name of a tenant, user, agent or document (contract §1). Raises BadParameter."""
    if value is not None and not is_identifier(value):
        raise typer.BadParameter("it must be 1-256 characters without control characters")
    return value


def identifiers(values: list[str] | None) -> list[str] | None:
    """Check an option that may be repeated, as ``identifier`` does."""
    for value in values or ():
        identifier(value)
    return values


def document_list(values: list[str] | None) -> list[str] | None:
    """Check an option that lists documents. Raises BadParameter."""
    try:
        document_ids(values or ())
    except ValueError as error:
        raise typer.BadParameter(f"it {error}") from None
    return values


def ocr_languages(value: str | None) -> str | None:
    """Check the languages of an option. Raises BadParameter."""
    if value is not None:
        try:
            check_languages(parse_languages(value))
        except ValueError as error:
            raise typer.BadParameter(f"it {error}") from None
    return value


def parse_languages(value: str) -> tuple[str, ...]:
    """Return the languages that an option lists; none in an empty one, which turns OCR off."""
    return tuple(it.strip() for it in value.split(",") if it.strip())
