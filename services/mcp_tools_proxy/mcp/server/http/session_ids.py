"""Signed session ids of the older eras, with all data needed to serve the session.

Any replica with the key can serve any session, without a table of idle ones.
"""

import hmac
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions, SchemaStyle
from mcp_tools_proxy.mcp.server.handshake_session import Declared
from mcp_tools_proxy.wire.mcp_protocol import HANDSHAKE_VERSIONS

CAPABILITIES: Sequence[tuple[str, ...]] = (
    ("roots",),
    ("roots", "listChanged"),
    ("sampling",),
    ("sampling", "tools"),
    ("sampling", "context"),
    ("elicitation",),
    ("elicitation", "form"),
    ("elicitation", "url"),
)
"""Client capabilities in an id, one bit each, that allow servers to send requests to clients.

Append new ones: ids of the previous version are still in use.
"""

_STYLE_OF_FORMAT: Mapping[int, ToolNameStyle | None] = {
    1: None,
    2: ToolNameStyle.SERVER,
    3: ToolNameStyle.ALIAS,
    4: ToolNameStyle.BARE,
}
"""The style of tool names in a session's lists, by the format of its id.

Replicas from before styles know only format 1. They answer 404 to other formats, and the client
begins a new session.
"""
_FORMAT_OF_STYLE = {style: format_ for format_, style in _STYLE_OF_FORMAT.items()}
_FIELDS = Struct(">BBHI4s8s")
"""Format, protocol version, capabilities, start time, lists, random bytes."""
_MAC_BYTES = 16
_EXTENDED = 5
"""The format of an id with three more bytes: style, schemas, longest alias (0 for none)."""
_STYLES = (None, *ToolNameStyle)
_SCHEMAS = (None, *SchemaStyle)
_SIZES = {(size + _MAC_BYTES) * 4 // 3: size for size in (_FIELDS.size, _FIELDS.size + 3)}
"""Length of an id → bytes of its signed fields."""


def unix_time() -> float:
    """Return the seconds since 1970."""
    return time.time_ns() / 10**9


class SessionName(NamedTuple):
    """Identifies a session."""

    tenant_id: str
    nonce: bytes


_Owner = tuple[str, str, str | None, str]
"""Tenant, user and agent of a session, and its path."""

MAX_CACHED = 4096
"""Checked ids that are kept, valid or not: about 2 MB, or 20 MB with the longest names."""


@dataclass(frozen=True, slots=True)
class SessionClaims:
    """Contents of a session id."""

    declared: Declared
    age_s: float
    """Seconds since the session began."""
    lists: bytes
    """Digest of the lists that the client saw then."""
    name: SessionName
    options: ListOptions = SERVER_NAMES


class SessionIds:
    """Creates session ids with the first of ``keys``, and reads those of any of them.

    Without keys it generates one, so no other process can read the ids.
    """

    def __init__(self, keys: Sequence[bytes], clock: Callable[[], float] = unix_time) -> None:
        """``clock`` returns seconds since 1970; clocks of replicas must agree within seconds."""
        self._keys = keys or (secrets.token_bytes(32),)
        self._clock = clock
        # checking a signature took 8 % of a document call
        self._fields = lru_cache(MAX_CACHED)(self._signed_fields)

    def create(
        self,
        declared: Declared,
        caller: Caller,
        path: str,
        lists: bytes,
        options: ListOptions = SERVER_NAMES,
    ) -> tuple[bytes, SessionName]:
        """Return the id of a new session, which only ``caller`` can use, at ``path``; and its name.

        ``lists`` has four bytes, see SessionClaims.
        """
        nonce = secrets.token_bytes(8)
        extension = _extension_of(options)
        fields = _FIELDS.pack(
            _EXTENDED if extension else _FORMAT_OF_STYLE[options.name_style],
            HANDSHAKE_VERSIONS.index(declared.version),
            _bits_of(declared.capabilities),
            int(self._clock()),
            lists,
            nonce,
        )
        fields += extension
        signed = fields + _mac(self._keys[0], fields, _owner_of(caller, path))
        return urlsafe_b64encode(signed), SessionName(caller.tenant_id, nonce)

    def read(self, session_id: bytes, caller: Caller, path: str) -> SessionClaims | None:
        """Return the contents of an id; None if we did not sign it for this caller and path."""
        if len(session_id) not in _SIZES:  # of any length: never cached
            return None
        fields = self._fields(session_id, _owner_of(caller, path))
        if fields is None:
            return None
        format_, version, bits, began, lists, nonce = _FIELDS.unpack_from(fields)
        options = _options_of(format_, fields[_FIELDS.size :])
        if options is None or version >= len(HANDSHAKE_VERSIONS):
            return None  # of a later version
        declared = Declared(HANDSHAKE_VERSIONS[version], _capabilities_of(bits))
        name = SessionName(caller.tenant_id, nonce)
        return SessionClaims(declared, self._clock() - began, lists, name, options)

    def _signed_fields(self, session_id: bytes, owner: _Owner) -> bytes | None:
        """Return the fields in an id; None if we did not sign it for this owner."""
        size = _SIZES[len(session_id)]
        try:
            signed = urlsafe_b64decode(session_id)
        except ValueError:
            return None
        if len(signed) != size + _MAC_BYTES or urlsafe_b64encode(signed) != session_id:
            return None
        fields, mac = signed[:size], signed[size:]
        is_ours = any(hmac.compare_digest(mac, _mac(key, fields, owner)) for key in self._keys)
        return fields if is_ours else None


def _extension_of(options: ListOptions) -> bytes:
    """Return the extra bytes of an id with more options than a style; otherwise b""."""
    if options.schemas is None and options.name_max is None:
        return b""
    style, schemas = _STYLES.index(options.name_style), _SCHEMAS.index(options.schemas)
    return bytes((style, schemas, options.name_max or 0))


def _options_of(format_: int, extension: bytes) -> ListOptions | None:
    """Return the options in an id; None for an unknown format, such as that of a later version."""
    if not extension:
        known = format_ in _STYLE_OF_FORMAT
        return ListOptions(name_style=_STYLE_OF_FORMAT[format_]) if known else None
    style, schemas, name_max = extension
    if format_ != _EXTENDED or style >= len(_STYLES) or schemas >= len(_SCHEMAS):
        return None
    return ListOptions(
        name_style=_STYLES[style], schemas=_SCHEMAS[schemas], name_max=name_max or None
    )


def _owner_of(caller: Caller, path: str) -> _Owner:
    return caller.tenant_id, caller.user_id, caller.agent, path


def _mac(key: bytes, fields: bytes, owner: _Owner) -> bytes:
    return hmac.digest(key, fields + to_json(owner), "sha256")[:_MAC_BYTES]


def _bits_of(capabilities: Mapping[str, Any]) -> int:
    return sum(1 << bit for bit, parts in enumerate(CAPABILITIES) if _has(capabilities, parts))


def _has(value: Any, parts: Iterable[str]) -> bool:
    for part in parts:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value is True or isinstance(value, Mapping)


@lru_cache(maxsize=256)
def _capabilities_of(bits: int) -> Mapping[str, Any]:
    capabilities: dict[str, Any] = {}
    for bit, (name, *part) in enumerate(CAPABILITIES):
        if bits >> bit & 1:
            inner = capabilities.setdefault(name, {})
            for key in part:
                inner[key] = True if key == "listChanged" else {}
    return capabilities
