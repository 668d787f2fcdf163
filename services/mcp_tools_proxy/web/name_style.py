"""Reads the style of tools' names from the query of a request, at every entry that has one."""

from urllib.parse import parse_qsl

from starlette.types import Scope

from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.wire.text import quote

NAME_STYLE = "name_style"
_KNOWN = ", ".join(ToolNameStyle)


class InvalidNameStyle(InvalidRequest):
    """The query names a style that there is not, or two; its HTTP status is 400 at every entry."""


def name_style_of(scope: Scope) -> ToolNameStyle | None:
    """Return the style that the query of a request names; None without one.

    Raises InvalidNameStyle.
    """
    query: bytes = scope["query_string"]
    if not query or (b"name_style" not in query and b"%" not in query):
        return None
    styles = [
        value
        for key, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        if key == NAME_STYLE
    ]
    if len(styles) > 1:
        raise _refused(f"is given twice; keep one of {_KNOWN}")
    if styles and styles[0] not in tuple(ToolNameStyle):
        raise _refused(f"should be one of {_KNOWN}, not {quote(styles[0])}")
    return ToolNameStyle(styles[0]) if styles else None


def _refused(problem: str) -> InvalidNameStyle:
    return InvalidNameStyle(f"{NAME_STYLE}: {problem}", details={"field": NAME_STYLE})
