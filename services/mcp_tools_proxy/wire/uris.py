"""Validation of URIs, redaction of secrets in them, and groups of IP addresses.

Valid URIs work with MCP clients, and are safe to match against URI templates.
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
"""The scheme of the gateway's own resources, its documents; servers cannot use it."""

MAX_DECODINGS = 4
"""Decoded layers of percent-encoding; a server behind a proxy can decode twice."""

_URL: TypeAdapter[AnyUrl] = TypeAdapter(Annotated[AnyUrl, UrlConstraints(host_required=False)])
"""The type that validates URIs in MCP clients of the first SDK generation."""

_PATH_END = re.compile(r"[?#]")
_SEGMENT_END = re.compile(r"[/\\:]")


def is_normalized_path(uri: str) -> bool:
    """Return whether ``uri`` refers to the same resource after normalization by a server.

    Many servers resolve ``.`` and ``..`` in a path (RFC 3986 §5.2.4), encoded or not:
    ``notes://public/../private`` would match ``notes://public/{+path}`` and read a private note.
    Some decode twice, or first remove parameters (``..;v=1``). Control characters are refused too,
    because many parsers drop some.
    """
    path = percent_decode_repeatedly(_PATH_END.split(uri, maxsplit=1)[0])
    if has_control_character(uri) or has_control_character(path):
        return False
    segments = _SEGMENT_END.split(path)
    return not any(segment.partition(";")[0] in (".", "..") for segment in segments)


def percent_decode_repeatedly(uri: str) -> str:
    """Decode up to MAX_DECODINGS layers of percent-encoding."""
    for _ in range(MAX_DECODINGS):
        plain = unquote(uri)
        if plain == uri:
            break
        uri = plain
    return uri


def has_own_scheme(uri: str) -> bool:
    """Return whether a URI or URI template uses the gateway's own scheme."""
    return uri.partition(":")[0].strip().lower() == OWN_SCHEME


def is_url(uri: object) -> bool:
    """Return whether all MCP clients accept ``uri``: it has a scheme and parses as a URL."""
    try:
        _URL.validate_python(uri)
    except ValidationError:
        return False
    return True


URL_CHARS = 300
"""Shown characters of a foreign URL."""

SESSION_ID_CHARS = 8
"""Shown characters of a session identifier, at most half of it: the whole identifier is a secret
that lets its holder send messages in the session."""

_VALUES_IN_URI = re.compile(
    r"(?<=://)(?:[^/?#]*@|[^/?#]{256,})"  # user and password; a host has 253 characters at most
    r"|(?<=^data:).*|\{?[?#].*",
    re.DOTALL | re.IGNORECASE,
)
_QUOTED = re.compile(
    "|".join(  # text without an end quote, or with a possibly escaped one, is hidden to the end
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
    """Return the part of a session identifier that log lines can show."""
    return identifier[: min(SESSION_ID_CHARS, len(identifier) // 2)]


def redact_url(url: URL) -> str:
    """Return a foreign URL as text, without user, password, query and fragment."""
    if not url.absolute:
        return "an address that cannot be read"
    path = url.origin().with_path(url.raw_path, encoded=True)
    return quote(str(path), URL_CHARS)


def redact_uri(uri: str) -> str:
    """Return a URI or URI template without user, password, query, fragment and embedded data."""
    return _VALUES_IN_URI.sub("", uri)


def redact_quoted(text: str) -> str:
    """Return a text with quoted parts, which can be values, replaced by an ellipsis."""
    return _QUOTED.sub('"…"', text)


IpAddress = IPv4Address | IPv6Address


def parse_address(text: str) -> IpAddress | None:
    """Parse an address with or without port or brackets; return None for other text."""
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
    """Return the key for counts per address: the address, or for IPv6 its /64 network.

    A host usually has a whole /64, and could use a new address for each request.
    """
    parsed = parse_address(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((int(parsed), 64), strict=False))
    return address if parsed is None else str(parsed)
