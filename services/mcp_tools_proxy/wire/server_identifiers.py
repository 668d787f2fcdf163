"""What a remote backend knows a gateway by."""

import re

SERVER_IDENTIFIER_CHARS = 64

_IDENTIFIER = re.compile(rf"(?!\.{{1,2}}\Z)[A-Za-z0-9._-]{{1,{SERVER_IDENTIFIER_CHARS}}}")
_OTHER = re.compile(r"[^a-z0-9._-]")
_PREFIX = "mcp-tools-proxy-"


def is_server_identifier(text: str) -> bool:
    """Tell whether ``text`` may identify a gateway: as it is, it is one segment of a URL's path."""
    return _IDENTIFIER.fullmatch(text) is not None


def server_identifier_of(hostname: str) -> str:
    """Make the identifier of the gateway on the machine of this name."""
    return (_PREFIX + _OTHER.sub("-", hostname.lower()))[:SERVER_IDENTIFIER_CHARS]
