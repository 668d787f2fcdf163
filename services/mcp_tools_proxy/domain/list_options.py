"""How the MCP lists of one client are written: names, schemas and pages of tools."""

from dataclasses import replace
from enum import StrEnum

from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MIN_NAME_CHARS = 16
MAX_NAME_CHARS = 64
"""Bounds of ``name_max``: a shorter alias would be little more than its hash."""

MAX_PAGE_BYTES = 512 * 1024
"""Bytes of one page of a list over legacy HTTP+SSE: Python clients refuse an event of 1 MiB."""


class SchemaStyle(StrEnum):
    """How MCP lists write schemas: as the server does, or with common keywords only."""

    ORIGINAL = "original"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """How a client's lists are written, as its address requests it, and the defaults of its entry.

    None for an option that the address leaves to the agent's profile and the settings.
    """

    name_style: ToolNameStyle | None = None
    schemas: SchemaStyle | None = None
    name_max: int | None = None
    """The longest alias, in characters."""
    entry_style: ToolNameStyle = ToolNameStyle.SERVER
    """The style of names where neither the address nor a profile nor the setting says it."""
    page_bytes: int | None = None
    """The size of one page of a list; None for lists in one piece."""

    @property
    def requested(self) -> tuple[ToolNameStyle | None, SchemaStyle | None, int | None]:
        """What the address says."""
        return self.name_style, self.schemas, self.name_max

    def agree_with(self, session: "ListOptions") -> bool:
        """Return whether a request names no other options than its session's."""
        pairs = zip(self.requested, session.requested, strict=True)
        return all(named in (None, kept) for named, kept in pairs)

    def in_session(self, session: "ListOptions") -> "ListOptions":
        """Return these options with those that the session was begun with."""
        return replace(
            self,
            name_style=session.name_style or self.name_style,
            schemas=session.schemas or self.schemas,
            name_max=session.name_max or self.name_max,
        )


SERVER_NAMES = ListOptions()
"""The seeds' entries: ``server:tool``, as the HTTP API."""

ALIASES = ListOptions(entry_style=ToolNameStyle.ALIAS)
"""Streamable HTTP and stdio: models and clients refuse the colon (SEP-986)."""

LEGACY_SSE = ListOptions(page_bytes=MAX_PAGE_BYTES)
"""Legacy HTTP+SSE."""
