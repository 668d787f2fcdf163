"""The ``Bearer`` challenge of a 401 or 403 (RFC 6750 §3, RFC 9728 §5.1)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mcp_tools_proxy.domain.server_auth import SCOPE_CHARACTER

_SCHEME = re.compile(r"(?:^|,)\s*bearer(?=\s|,|$)", re.IGNORECASE)
_PARAMETER = re.compile(r'(?<![\w-])([A-Za-z0-9_-]++)\s*+=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')

MAX_CHARS = 8192
"""A longer challenge is read up to here."""

MAX_SCOPES = 100
"""Scopes of a server or an issuer that are read: users, and callers, are shown them."""

_SCOPE_NAME = re.compile(SCOPE_CHARACTER + "{1,256}")
"""No server can put a sentence of its own choice into an answer."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a server says of the token that it wants; nothing of it is trusted."""

    error: str = ""
    scopes: tuple[str, ...] | None = None
    """The scopes that it names; None if it names none."""
    metadata_url: str | None = None

    @property
    def is_insufficient_scope(self) -> bool:
        """Whether the token is good, and lacks a scope."""
        return self.error == "insufficient_scope"


def read_scopes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes that somebody else has named, each once; what is none is left out."""
    scopes = dict.fromkeys(name for name in names if _SCOPE_NAME.fullmatch(name))
    return tuple(scopes)[:MAX_SCOPES]


def read_challenge(headers: Iterable[str]) -> Challenge | None:
    """Return the first Bearer challenge of the values of ``WWW-Authenticate``; None without one."""
    for header in headers:
        found = _SCHEME.search(header[:MAX_CHARS])
        if found is not None:
            return _read(header[found.end() : MAX_CHARS])
    return None


def _read(parameters: str) -> Challenge:
    values: dict[str, str] = {}
    for name, quoted, plain in _PARAMETER.findall(parameters):
        values.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
    scope = values.get("scope")
    return Challenge(
        error=values.get("error", ""),
        scopes=None if scope is None else read_scopes(scope.split()),
        metadata_url=values.get("resource_metadata"),
    )
