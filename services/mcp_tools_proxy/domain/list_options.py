"""Format of one client's MCP lists: names, schemas and pages of tools."""

from dataclasses import replace
from enum import StrEnum

from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MIN_NAME_CHARS = 16
MAX_NAME_CHARS = 64
"""Bounds of ``name_max``: a shorter alias would be little more than its hash."""

MAX_PAGE_BYTES = 512 * 1024
"""Bytes per page of a list over legacy HTTP+SSE: Python clients refuse an event of 1 MiB."""


class SchemaStyle(StrEnum):
    """Schemas in MCP lists: the server's original, or reduced to common keywords."""

    ORIGINAL = "original"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """Format of a client's lists, as its URL requests it, with the defaults of the entry point.

    None leaves an option to the agent's profile and the settings.
    """

    name_style: ToolNameStyle | None = None
    schemas: SchemaStyle | None = None
    name_max: int | None = None
    """The maximum length of an alias, in characters."""
    entry_style: ToolNameStyle = ToolNameStyle.SERVER
    """The name style if neither URL, profile nor setting specifies one."""
    page_bytes: int | None = None
    """The size of one page of a list; None for unpaged lists."""

    @property
    def requested(self) -> tuple[ToolNameStyle | None, SchemaStyle | None, int | None]:
        """The options in the URL."""
        return self.name_style, self.schemas, self.name_max

    def agree_with(self, session: "ListOptions") -> bool:
        """Return whether a request's options match the session's; omitted options match."""
        pairs = zip(self.requested, session.requested, strict=True)
        return all(named in (None, kept) for named, kept in pairs)

    def in_session(self, session: "ListOptions") -> "ListOptions":
        """Return these options, overridden by those of the session."""
        return replace(
            self,
            name_style=session.name_style or self.name_style,
            schemas=session.schemas or self.schemas,
            name_max=session.name_max or self.name_max,
        )


SERVER_NAMES = ListOptions()
"""The HTTP API and the base: ``server:tool``."""

ALIASES = ListOptions(entry_style=ToolNameStyle.ALIAS)
"""Streamable HTTP and stdio: models and clients refuse the colon (SEP-986)."""

LEGACY_SSE = ListOptions(page_bytes=MAX_PAGE_BYTES)
