"""Notes on an upgrade that concern one configuration; CHANGELOG.md has all changes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.settings.settings import Settings

Servers = Sequence[ServerConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeNote:
    """One change since the previous version.

    ``version`` is the first version with the change, ``text`` the advice, and ``concerns`` tests
    whether the change affects a configuration.
    """

    version: str
    text: str
    concerns: Callable[[Settings, Servers], bool]


NOTES: Sequence[UpgradeNote] = ()
"""Empty until a second version exists: there is no upgrade to 0.1.0."""


def upgrade_notes(
    settings: Settings, servers: Servers, notes: Sequence[UpgradeNote] = NOTES
) -> list[str]:
    """Return the texts of the notes that concern these settings and the servers of ``mcp.json``."""
    return [note.text for note in notes if note.concerns(settings, servers)]
