"""Removes secrets from what log lines and messages show of URLs, error texts and session ids."""

import re

from yarl import URL

from mcp_tools_proxy.wire.text import quote

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
