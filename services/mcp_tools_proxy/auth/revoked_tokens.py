"""Revoked tokens, kept for a while so that records can name their ids.

A tokens file ``NAME`` has a file ``NAME.revoked`` beside it, with a JSON line for each removed
token: its id, SHA-256, tenant and time of revocation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic_core import from_json, to_json

from mcp_tools_proxy.auth.token_format import TokenEntry
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.storage.files import write_atomically

KEPT = timedelta(days=90)
"""Retention of a revoked token."""

MAX_REVOKED = 10_000

_MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedToken:
    """A token that was removed from the file; ``hash`` is its SHA-256 in hex."""

    id: str
    hash: str = field(repr=False)
    tenant_id: str | None
    revoked: datetime

    @classmethod
    def of(cls, entry: TokenEntry, now: datetime) -> "RevokedToken":
        """Return the retained fields of a token."""
        tenant_id = entry.principal.tenant_id
        return cls(id=entry.id, hash=entry.hash, tenant_id=tenant_id, revoked=now)

    @property
    def log_fields(self) -> dict[str, str]:
        """The fields of a record."""
        tenant = {} if self.tenant_id is None else {"tenant_id": self.tenant_id}
        return {**tenant, "token_id": self.id}


Revoked = Mapping[str, RevokedToken]
"""Revoked tokens by hash, in the order of revocation."""


def revoked_file(tokens_file: Path) -> Path:
    """Return the file of the tokens that were removed from a tokens file."""
    return tokens_file.with_name(f"{tokens_file.name}.revoked")


def read_revoked(tokens_file: Path, now: datetime) -> Revoked:
    """Read them; unreadable files and lines are skipped, as revocation does not need them."""
    try:
        lines = revoked_file(tokens_file).read_bytes().splitlines()
    except OSError:
        return {}
    return bounded(filter(None, map(_parsed, lines[-MAX_REVOKED:])), now)


def bounded(found: Iterable[RevokedToken], now: datetime) -> Revoked:
    """Return the tokens within retention and limit."""
    kept = {it.hash: it for it in found if it.revoked > now - KEPT}
    return dict(list(kept.items())[-MAX_REVOKED:])


def add_revoked(tokens_file: Path, entries: Iterable[TokenEntry], now: datetime) -> None:
    """Add tokens to the file, while the tokens file is locked. Raises OSError."""
    added = [RevokedToken.of(entry, now) for entry in entries]
    if added:
        known = bounded([*read_revoked(tokens_file, now).values(), *added], now)
        content = b"".join(_line(it) for it in known.values())
        write_atomically(revoked_file(tokens_file), content, new_file_mode=_MODE)


def _line(token: RevokedToken) -> bytes:
    fields = {
        "id": token.id,
        "sha256": token.hash,
        "tenant": token.tenant_id,
        "revoked": token.revoked.astimezone(UTC).isoformat(timespec="seconds"),
    }
    return to_json(fields) + b"\n"


def _parsed(line: bytes) -> RevokedToken | None:
    try:
        content = from_json(line)
        token_id, hashed, tenant_id = (content.get(it) for it in ("id", "sha256", "tenant"))
        revoked = datetime.fromisoformat(content["revoked"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    texts = isinstance(token_id, str) and isinstance(hashed, str)
    if not texts or not isinstance(tenant_id, str | None) or revoked.tzinfo is None:
        return None
    return RevokedToken(id=token_id, hash=hashed, tenant_id=tenant_id, revoked=revoked)
