"""Checks of URIs, how they are shown without secrets, and groups of IP addresses.

URIs are valid for MCP clients, and safe to match against URI templates.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Annotated
from urllib.parse import unquote

from pydantic import AnyUrl, TypeAdapter, UrlConstraints, ValidationError
from yarl import URL

from mcp_tools_proxy.wire.identifiers import has_control_character
from mcp_tools_proxy.wire.text import quote

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


URL_CHARS = 300
"""Longest foreign address that is shown."""

SESSION_ID_CHARS = 8
"""Characters of a session identifier that are shown, and at most half of it: the whole identifier
is a secret that lets its holder send messages in the session."""

_VALUES_IN_URI = re.compile(
    r"(?<=://)(?:[^/?#]*@|[^/?#]{256,})"  # user and password; a host has 253 characters at most
    r"|(?<=^data:).*|\{?[?#].*",
    re.DOTALL | re.IGNORECASE,
)
_QUOTED = re.compile(
    "|".join(  # what has no end, or one that may be escaped, is hidden with all that follows
        (
            *(
                rf"{opening}(?:[^{closing}]*(?<!\\)[{closing}]|.*)"
                for opening, closing in ('""', "``", "“”", "„“", "«»")
            ),
            r"(?:(?<!\w)|(?<=\b[bfru]))['‘](?:.*?(?<!\\)['’](?!\w)|.*)",  # not within a word
        )
    ),
    re.DOTALL,
)


def redact_session_id(identifier: str) -> str:
    """Return the part of a session identifier that log lines may show."""
    return identifier[: min(SESSION_ID_CHARS, len(identifier) // 2)]


def redact_url(url: URL) -> str:
    """Return the text of a foreign address without its user, password, query and fragment."""
    if not url.absolute:
        return "an address that cannot be read"
    path = url.origin().with_path(url.raw_path, encoded=True)
    return quote(str(path), URL_CHARS)


def redact_uri(uri: str) -> str:
    """Return a URI or URI template without user, password, query, fragment and embedded data."""
    return _VALUES_IN_URI.sub("", uri)


def redact_quoted(text: str) -> str:
    """Return a text whose quoted parts, which may be values, are replaced by an ellipsis."""
    return _QUOTED.sub('"…"', text)


IpAddress = IPv4Address | IPv6Address


def parse_address(text: str) -> IpAddress | None:
    """Parse an address with or without a port or brackets; return None for other text."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def group_of(address: str) -> str:
    """Return the key under which an address is counted: itself, or for IPv6 its /64 network.

    A host that has one IPv6 address usually has the whole /64, and could use a new one each time.
    """
    parsed = parse_address(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((int(parsed), 64), strict=False))
    return address if parsed is None else str(parsed)
