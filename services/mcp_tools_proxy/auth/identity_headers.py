"""Reads the headers that identify the caller of a request."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity, roles_of
from mcp_tools_proxy.wire.identifiers import (
    DOCUMENTS_RULE,
    MAX_ROLES,
    document_ids,
    is_identifier,
)

TENANT_HEADER = "X-Tenant-Id"
USER_HEADER = "X-User-Id"
ROLES_HEADER = "X-User-Roles"
AGENT_HEADER = "X-Agent-Id"
DOCUMENTS_HEADER = "X-Documents"
AUTHORIZATION = "Authorization"

_AUTHORIZATION_KEY = AUTHORIZATION.lower().encode()

MAX_CACHED = 1_000
"""Assertions that are kept: a caller's headers say the same each time."""

MAX_CACHED_BYTES = 1024
"""Headers that have more together are read again each time: 1,000 requests with 60 kB of roles each
kept 1.2 GB."""

_NAMES = {
    name.lower().encode(): name
    for name in (
        *(TENANT_HEADER, USER_HEADER, ROLES_HEADER, AGENT_HEADER),
        *(DOCUMENTS_HEADER, AUTHORIZATION),
    )
}


def read_authorization(raw: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the value of ``Authorization``. Raises InvalidRequest for a repeated one.

    For checks before ``read_headers``: no other header is parsed before the token is checked.
    """
    values = [value for key, value in raw if key == _AUTHORIZATION_KEY]
    if len(values) > 1:
        raise _invalid(AUTHORIZATION, "is given twice; keep one")
    return values[0].strip(b" \t").decode("latin-1") if values else None


def read_headers(raw: Sequence[tuple[bytes, bytes]]) -> tuple[str | None, AssertedIdentity]:
    """Return the value of ``Authorization`` and the identity that the ``X-*`` headers assert.

    ``raw`` are ASGI's pairs, names in lower case. The values of ``X-*-Id`` are UTF-8 identifiers
    (contract §1, input rules). ``X-User-Roles`` has roles separated by commas; what is in a role
    beside printable ASCII, and its commas and percent signs, are percent-encoded. ``X-Documents``
    has ids in the same form; empty, it names no document. Raises InvalidRequest naming the header,
    also for a repeated one: a proxy in front may have checked the other value.
    """
    by_key = dict(raw)
    if len(by_key) != len(raw):
        _refuse_repeated(raw)
    found = {
        _NAMES[key]: by_key[key].strip(b" \t")  # httptools leaves white space (RFC 9110 §5.5)
        for key in by_key.keys() & _NAMES.keys()
    }
    if not found:
        return None, NO_ASSERTION
    authorization = found.pop(AUTHORIZATION, None)
    documents = found.pop(DOCUMENTS_HEADER, None)
    assertion = NO_ASSERTION
    if found:
        is_short = sum(map(len, found.values())) <= MAX_CACHED_BYTES
        read = _assertion if is_short else _assertion.__wrapped__
        names = (TENANT_HEADER, USER_HEADER, ROLES_HEADER, AGENT_HEADER)
        assertion = read(*map(found.get, names))
    if documents is not None:  # not cached: long, and of one conversation
        assertion = replace(assertion, documents=_documents(documents))
    return (None if authorization is None else authorization.decode("latin-1")), assertion


def _refuse_repeated(raw: Sequence[tuple[bytes, bytes]]) -> None:
    """Raise InvalidRequest if one of the headers that are read here is given twice."""
    seen = set()
    for key, _ in raw:
        if key in seen:
            raise _invalid(_NAMES[key], "is given twice; keep one")
        if key in _NAMES:
            seen.add(key)


@lru_cache(maxsize=MAX_CACHED)
def _assertion(
    tenant: bytes | None, user: bytes | None, roles: bytes | None, agent: bytes | None
) -> AssertedIdentity:
    return AssertedIdentity(
        tenant_id=_identifier(TENANT_HEADER, tenant),
        user_id=_identifier(USER_HEADER, user),
        roles=_roles(roles),
        agent=_identifier(AGENT_HEADER, agent),
    )


def _identifier(name: str, value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise _invalid(name, "is not UTF-8") from None
    if not is_identifier(text):
        raise _invalid(name, "should be 1-256 characters without control characters")
    return text


def _roles(value: bytes | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not value:
        return ()
    if value.count(b",") >= MAX_ROLES:
        raise _invalid(ROLES_HEADER, f"names over {MAX_ROLES} roles, the limit; name fewer")
    texts = _texts(ROLES_HEADER, value)
    if not all(map(is_identifier, texts)):
        raise _invalid(
            ROLES_HEADER,
            "should be roles of 1-256 characters without control characters, separated by commas",
        )
    return roles_of(texts)


def _documents(value: bytes) -> frozenset[str]:
    if not value:
        return frozenset()
    texts = _texts(DOCUMENTS_HEADER, value)
    try:
        return document_ids(texts)
    except ValueError:
        raise _invalid(DOCUMENTS_HEADER, f"{DOCUMENTS_RULE}, separated by commas") from None


def _texts(name: str, value: bytes) -> list[str]:
    """Return the texts of a header that has several, each percent-encoded."""
    try:
        return [unquote_to_bytes(part.strip(b" \t")).decode() for part in value.split(b",")]
    except UnicodeDecodeError:
        raise _invalid(name, "is not UTF-8") from None


def _invalid(name: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"{name}: {problem}", details={"field": name})
