"""Validation of shared options, and values for shell completion.

Completion never fails or prints. It only reads files, and returns nothing if they are unreadable.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import typer

from mcp_tools_proxy.auth.token_format import read_lines
from mcp_tools_proxy.documents.importers.base import check_languages
from mcp_tools_proxy.documents.importers.text_encoding import find_encoding
from mcp_tools_proxy.domain.configuration import InvalidConfig
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.settings.auth import TokensFileSettings
from mcp_tools_proxy.settings.settings import ConfigDirSettings, SettingsError, load
from mcp_tools_proxy.wire.identifiers import check_language, document_ids, is_identifier


def identifier(value: str | None) -> str | None:
    """Check a tenant, user, agent or document name (contract §1). Raises BadParameter."""
    if value is not None and not is_identifier(value):
        raise typer.BadParameter("it must be 1-256 characters without control characters")
    return value


def identifiers(values: list[str] | None) -> list[str] | None:
    """Check the values of a repeatable option like ``identifier``."""
    for value in values or ():
        identifier(value)
    return values


def document_list(values: list[str] | None) -> list[str] | None:
    """Check a list of documents. Raises BadParameter."""
    try:
        document_ids(values or ())
    except ValueError as error:
        raise typer.BadParameter(f"it {error}") from None
    return values


def text_encoding(value: str | None) -> str | None:
    """Check the name of a text encoding. Raises BadParameter."""
    if value is not None:
        try:
            find_encoding(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return value


def language_tag(value: str | None) -> str | None:
    """Check a language. Raises BadParameter."""
    try:
        check_language(value)
    except ValueError as error:
        raise typer.BadParameter(f"it {error}") from None
    return value


def ocr_languages(value: str | None) -> str | None:
    """Check OCR languages. Raises BadParameter."""
    if value is not None:
        try:
            check_languages(parse_languages(value))
        except ValueError as error:
            raise typer.BadParameter(f"it {error}") from None
    return value


def parse_languages(value: str) -> tuple[str, ...]:
    """Return the listed languages; empty turns OCR off."""
    return tuple(it.strip() for it in value.split(",") if it.strip())


_PLAIN = re.compile(r"[\w.@/+-]+")
"""Names that need no shell quotes: completion scripts evaluate them."""


def agent_names(context: typer.Context) -> list[str]:
    """Return the agents of the configuration folder in the option or settings."""
    from mcp_tools_proxy.config.agents import load_agents  # noqa: PLC0415 - slow to import

    with suppress(SettingsError, InvalidConfig, OSError):
        folder = context.params.get("config_dir") or load(ConfigDirSettings).config_dir
        return _plain(load_agents(Path(folder)).profiles)
    return []


def token_ids(context: typer.Context) -> list[tuple[str, str]]:
    """Return the ids of the tokens file with their notes."""
    with suppress(SettingsError, OSError):
        path = context.params.get("tokens_file") or load(TokensFileSettings).tokens_file
        if path is not None:
            entries = read_lines(Path(path).read_bytes()).entries
            return [(it.id, " ".join(_PLAIN.findall(it.note))) for it in entries]
    return []


def operator_rights() -> list[str]:
    """Return the rights of operators."""
    return [right.value for right in OperatorRight]


def document_files(incomplete: str) -> list[str]:
    """Return folders and importable files whose path begins with ``incomplete``."""
    from mcp_tools_proxy.documents.importers.file_kind import KINDS  # noqa: PLC0415 - slow start

    start = Path(incomplete)
    folder = start if incomplete.endswith("/") or not incomplete else start.parent
    with suppress(OSError):
        return _plain(
            f"{path}/" if path.is_dir() else str(path)
            for path in sorted(folder.iterdir())
            if path.is_dir() or path.suffix.lower() in KINDS
        )
    return []


def _plain(names: Iterable[str]) -> list[str]:
    return [name for name in names if _PLAIN.fullmatch(name)]
