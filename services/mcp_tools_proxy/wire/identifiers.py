"""Identifiers and trace ids that follow the input rules (contract §1), and loopback hosts."""

import re
from collections.abc import Sequence
from hashlib import sha256
from ipaddress import ip_address
from typing import Annotated

from pydantic import BeforeValidator, StringConstraints

IDENTIFIER_CHARS = 256
CONTROL_CHARACTERS = r"\x00-\x1f\x7f-\x9f"

Identifier = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=IDENTIFIER_CHARS, pattern=rf"^[^{CONTROL_CHARACTERS}]+$"
    ),
]
"""tenant_id, user_id, doc_id, section_id, anchor_chunk_id: 1–256 non-control characters."""

_LARGEST_ID = 10**IDENTIFIER_CHARS


def id_of(value: object) -> object:
    """Convert an integer to an id; return other values unchanged, for validation."""
    if type(value) is int and -_LARGEST_ID < value < _LARGEST_ID:  # not a bool
        return str(value)
    return value


_LANGUAGE_TAG = re.compile(r"(?=.{2,35}\Z)[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")


def check_language(value: object) -> object:
    """Check a language tag; other types are for the validation. Raises ValueError."""
    if isinstance(value, str) and _LANGUAGE_TAG.fullmatch(value) is None:
        raise ValueError("should be a BCP 47 tag such as de or pt-BR")
    return value


LanguageTag = Annotated[
    str,
    StringConstraints(max_length=35, pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$"),
    BeforeValidator(check_language),
]
"""A BCP 47 language tag, such as ``de`` or ``pt-BR``."""

ContentVersion = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A content version of a document: its SHA-256 in hex."""

MAX_ROLES = 1_000
"""Maximum number of roles in a request: sorting and comparing 90,000 took 50 ms."""

MAX_DOCUMENTS = 1_000
DOCUMENTS_RULE = (
    f"should be at most {MAX_DOCUMENTS} ids of documents, each of 1-{IDENTIFIER_CHARS} characters "
    "without control characters"
)

IDEMPOTENCY_KEY_CHARS = 128
IDEMPOTENCY_KEY_RULE = f"should be 1-{IDEMPOTENCY_KEY_CHARS} printable ASCII characters"
IDEMPOTENCY_KEY_PATTERN = rf"^[ -~]{{1,{IDEMPOTENCY_KEY_CHARS}}}$"

TRACE_ID_CHARS = 128
TRACE_ID_PATTERN = rf"^[!-~]{{1,{TRACE_ID_CHARS}}}$"
"""All trace_ids inside the gateway: 1–128 printable ASCII characters, no spaces."""

_CONTROL = re.compile(f"[{CONTROL_CHARACTERS}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TRACE_ID = re.compile(rf"[!-~]{{1,{TRACE_ID_CHARS}}}")


def is_identifier(text: str) -> bool:
    """Return whether ``text`` is a valid Identifier, for values outside pydantic models."""
    if not 1 <= len(text) <= IDENTIFIER_CHARS or has_control_character(text):
        return False
    return text.isascii() or _SURROGATE.search(text) is None  # from non-UTF-8 command lines


def document_ids(ids: Sequence[object]) -> frozenset[str]:
    """Return a list of document ids, for values outside pydantic models.

    Raises ValueError with DOCUMENTS_RULE.
    """
    found = [it for it in ids[:MAX_DOCUMENTS] if isinstance(it, str) and is_identifier(it)]
    if len(found) != len(ids):
        raise ValueError(DOCUMENTS_RULE)
    return frozenset(found)


def has_control_character(text: str) -> bool:
    """Return whether ``text`` contains a control character of ASCII or Latin-1."""
    return _CONTROL.search(text) is not None


def is_visible_ascii(text: str) -> bool:
    """Return whether ``text`` is printable ASCII without spaces, as ``Authorization`` requires."""
    return all("!" <= char <= "~" for char in text)


def is_idempotency_key(text: str) -> bool:
    """Return whether ``text`` is a valid idempotency_key: 1–128 printable ASCII characters."""
    return 1 <= len(text) <= IDEMPOTENCY_KEY_CHARS and text.isascii() and text.isprintable()


def is_trace_id(text: str) -> bool:
    """Return whether ``text`` is a valid trace_id without changes."""
    return _TRACE_ID.fullmatch(text) is not None


SERVER_IDENTIFIER_CHARS = 64

_IDENTIFIER = re.compile(rf"(?!\.{{1,2}}\Z)[A-Za-z0-9._-]{{1,{SERVER_IDENTIFIER_CHARS}}}")
_NOT_ALLOWED = re.compile(r"[^a-z0-9._-]")
_PREFIX = "mcp-tools-proxy-"


def is_server_identifier(text: str) -> bool:
    """Return whether ``text`` can identify a gateway: one URL path segment without escapes."""
    return _IDENTIFIER.fullmatch(text) is not None


def server_identifier_of(hostname: str) -> str:
    """Return the default identifier of a gateway on this host."""
    return (_PREFIX + _NOT_ALLOWED.sub("-", hostname.lower()))[:SERVER_IDENTIFIER_CHARS]


SERVER_ID_PATTERN = "[A-Za-z0-9_.-]{1,64}"
SERVER_NAME_PATTERN = (
    rf"[^{CONTROL_CHARACTERS}:]*[^{CONTROL_CHARACTERS}:\s][^{CONTROL_CHARACTERS}:]*"
)
"""Valid keys of ``mcpServers``: other programs allow spaces and letters of any language.

A colon would end the server's part of a name.
"""
SERVER_NAME_CHARS = 64

_SERVER_ID = re.compile(SERVER_ID_PATTERN)
_SERVER_NAME = re.compile(SERVER_NAME_PATTERN)
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")
_SLUG_CHARS = 48
_HASH_CHARS = 6


def server_id_of(name: str) -> str:
    """Return the server id for a name in a file or an operator's input.

    A name that is not a valid id has a derived one: ``my-server-c2d9a8`` for "My Server", which
    depends only on the name. Invalid names are returned unchanged.
    """
    if _SERVER_ID.fullmatch(name) or len(name) > SERVER_NAME_CHARS:
        return name
    if not _SERVER_NAME.fullmatch(name) or _SURROGATE.search(name):
        return name
    slug = _NOT_IN_SLUG.sub("-", name.lower())[:_SLUG_CHARS].strip("-") or "server"
    return f"{slug}-{sha256(name.encode()).hexdigest()[:_HASH_CHARS]}"


def with_server_id(name: str) -> str:
    """Return the name of an item, ``server:item``, with the server's id in place of its name.

    ``tool:``, ``prompt:`` or ``resource:`` can precede it.
    """
    kind = next((it for it in ("tool:", "prompt:", "resource:") if name.startswith(it)), "")
    server, colon, item = name[len(kind) :].partition(":")
    return f"{kind}{server_id_of(server)}{colon}{item}" if colon else name


ANY_HOST = "*"
"""Matches all hosts in a list of hosts."""


def is_loopback(host: str) -> bool:
    """Return whether a server listening on ``host`` is reachable only from its own machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
