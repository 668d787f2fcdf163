"""What a URI may be, and what it must be to be taken for one that a template stands for."""

import re
from typing import Annotated
from urllib.parse import unquote

from pydantic import AnyUrl, TypeAdapter, UrlConstraints, ValidationError

from mcp_tools_proxy.wire.identifiers import has_control_character

MAX_URI_CHARS = 8_192

MAX_DECODINGS = 4
"""How often a URI may be percent-encoded over and over, and is still seen through."""

_URL: TypeAdapter[AnyUrl] = TypeAdapter(Annotated[AnyUrl, UrlConstraints(host_required=False)])
"""What clients of the first generation take for a URI: these are their very types."""

_PATH_END = re.compile(r"[?#]")
_SEGMENT_END = re.compile(r"[/\\:]")


def is_normalized_path(uri: str) -> bool:
    """Tell whether ``uri`` leads nowhere else than it looks.

    One with a ``.`` or ``..`` in its path, encoded or not, is another URI once it is normalised
    (RFC 3986 §5.2.4), and many servers normalise: ``notes://public/../private`` looks like one of
    ``notes://public/{+path}``. Some decode twice, or leave out parameters (``..;v=1``) before. Of
    control characters many parsers drop some.
    """
    path = percent_decode_repeatedly(_PATH_END.split(uri, maxsplit=1)[0])
    if has_control_character(uri) or has_control_character(path):
        return False
    segments = _SEGMENT_END.split(path)
    return not any(segment.partition(";")[0] in (".", "..") for segment in segments)


def percent_decode_repeatedly(uri: str) -> str:
    """Undo percent-encoding, also of what was encoded over and over."""
    for _ in range(MAX_DECODINGS):
        plain = unquote(uri)
        if plain == uri:
            break
        uri = plain
    return uri


def is_url(uri: object) -> bool:
    """Tell whether every MCP client takes ``uri``: it has a scheme, and nothing that breaks it."""
    try:
        _URL.validate_python(uri)
    except ValidationError:
        return False
    return True
