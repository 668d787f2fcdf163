"""What a shell completes as values of options and arguments, one function for each kind.

A completion never fails and never prints: where the files cannot be read there is nothing to offer.
Only files are read, no server is asked.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import typer

from mcp_tools_proxy.auth.token_format import read_lines
from mcp_tools_proxy.documents.importers.kinds import SUFFIXES
from mcp_tools_proxy.domain.configuration import InvalidConfig
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.settings.auth import TokensFileSettings
from mcp_tools_proxy.settings.settings import ConfigDirSettings, SettingsError, load

_PLAIN = re.compile(r"[\w.@/+-]+")
"""Names that need no quotes in a shell: scripts of shells evaluate what is completed."""


def agent_names(context: typer.Context) -> list[str]:
    """Return the agents of the configuration folder that the command names, or the settings."""
    from mcp_tools_proxy.config.loader import load_agents  # noqa: PLC0415 - slow to import

    with suppress(SettingsError, InvalidConfig, OSError):
        folder = context.params.get("config_dir") or load(ConfigDirSettings).config_dir
        return _plain(load_agents(Path(folder)).profiles)
    return []


def token_ids(context: typer.Context) -> list[tuple[str, str]]:
    """Return the ids of the tokens file, each with the note of the token."""
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
    """Return the folders, and the files that can be imported, whose path begins like this."""
    start = Path(incomplete)
    folder = start if incomplete.endswith("/") or not incomplete else start.parent
    with suppress(OSError):
        return _plain(
            f"{path}/" if path.is_dir() else str(path)
            for path in sorted(folder.iterdir())
            if path.is_dir() or path.suffix.lower() in SUFFIXES
        )
    return []


def _plain(names: Iterable[str]) -> list[str]:
    return [name for name in names if _PLAIN.fullmatch(name)]
