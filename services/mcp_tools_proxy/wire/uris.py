"""Checks of URIs: validity for MCP clients, and safety for matching against URI templates."""

import re
from typing import Annotated
from urllib.parse import unquote

from pydantic import AnyUrl, TypeAdapter, UrlConstraints, ValidationError

from mcp_tools_proxy.wire.identifiers import has_control_character

MAX_URI_CHARS = 8_192

OWN_SCHEME = "doc"
"""The scheme of the gateway's own resources, its documents: no server's resource has it."""

MAX_DECODINGS = 4
"""Layers of percent-encoding that are decoded; a server behind a proxy may decode twice."""

_URL: TypeAdapter[AnyUrl] = TypeAdapter(Annotated[AnyUrl, UrlConstraints(host_required=False)])
"""The type by which MCP clients of the first SDK generation validate a URI."""

_PATH_END = re.compile(r"[?#]")
_SEGMENT_END = re.compile(r"[/\\:]")


def is_normalized_path(uri: str) -> bool:
    """Return whether ``uri`` stays the same resource when a server normalises it.

    A ``.`` or ``..`` in its path, encoded or not, makes it another URI (RFC 3986 §5.2.4), and many
    servers normalise: ``notes://public/../private`` would match ``notes://public/{+path}`` and
    read something private. Some servers decode twice, or remove parameters (``..;v=1``) first.
    Control characters fail as well: many parsers drop some.
    """
    path = percent_decode_repeatedly(_PATH_END.split(uri, maxsplit=1)[0])
    if has_control_character(uri) or has_control_character(path):
        return False
    segments = _SEGMENT_END.split(path)
    return not any(segment.partition(";")[0] in (".", "..") for segment in segments)


def percent_decode_repeatedly(uri: str) -> str:
    """Undo up to MAX_DECODINGS layers of percent-encoding."""
    for _ in range(MAX_DECODINGS):
        plain = unquote(uri)
        if plain == uri:
            break
        uri = plain
    return uri


def has_own_scheme(uri: str) -> bool:
    """Return whether a URI, or a template of URIs, is one of the gateway's own."""
    return uri.partition(":")[0].strip().lower() == OWN_SCHEME


def is_url(uri: object) -> bool:
    """Return whether every MCP client accepts ``uri``: it has a scheme and parses as a URL."""
    try:
        _URL.validate_python(uri)
    except ValidationError:
        return False
    return True
