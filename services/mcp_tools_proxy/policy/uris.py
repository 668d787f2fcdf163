"""What a URI may be, and what it must be to be taken for one that a template stands for."""

import re
from urllib.parse import unquote

from mcp_tools_proxy.policy.identifiers import has_control_character

MAX_URI_CHARS = 8_192

_PATH_END = re.compile(r"[?#]")
_SEGMENT_END = re.compile(r"[/\\:]")


def is_straight(uri: str) -> bool:
    """Tell whether ``uri`` leads nowhere else than it looks.

    One with a ``.`` or ``..`` in its path, encoded or not, is another URI once it is normalised
    (RFC 3986 §5.2.4), and many servers normalise: ``notes://public/../private`` looks like one of
    ``notes://public/{+path}``. Of control characters many parsers drop some.
    """
    path = unquote(_PATH_END.split(uri, maxsplit=1)[0])
    if has_control_character(uri) or has_control_character(path):
        return False
    return not {".", ".."} & set(_SEGMENT_END.split(path))
