"""One-time addresses: by one, whoever sees this machine's terminal signs in where no token can.

A code is made from a key in a file that this user alone can read, so the command ``console`` makes
one for a gateway that runs without asking it.
"""

import hmac
import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from mcp_tools_proxy.domain.identity import OperatorRight, Principal

CODE_S = 600
"""Seconds for which a code is good."""

GUEST = Principal(
    tenant_id=None,
    rights=frozenset(
        {
            OperatorRight.PRESETS,
            OperatorRight.AUDIT,
            OperatorRight.DOCUMENTS,
            OperatorRight.RUN,
        }
    ),
    token_log_fields={"token_id": "console"},
)
"""The principal of who signs in by such an address."""

_NONCE_BYTES = 32
_TIME_BYTES = 8
_CODE_BYTES = _NONCE_BYTES + _TIME_BYTES + sha256().digest_size


class OneTimeCodes:
    """Makes and redeems codes with ``key``; ``now`` returns seconds since 1970."""

    def __init__(self, key: bytes, now: Callable[[], float]) -> None:
        self._key = key
        self._now = now
        self._used: dict[bytes, float] = {}

    def make(self) -> str:
        """Return a new code: 256 random bits, when it ends, and a digest of both by our key."""
        ends_at = int(self._now()) + CODE_S
        content = secrets.token_bytes(_NONCE_BYTES) + ends_at.to_bytes(_TIME_BYTES)
        return urlsafe_b64encode(content + self._digest(content)).decode().rstrip("=")

    def is_good(self, code: str) -> bool:
        """Return whether a code would be redeemed; it is not used up."""
        return self._open(code) is not None

    def redeem(self, code: str) -> bool:
        """Use a code up; return whether it was good."""
        nonce = self._open(code)
        if nonce is None:
            return False
        now = self._now()
        self._used = {it: until for it, until in self._used.items() if until > now}
        self._used[nonce] = now + CODE_S
        return True

    def _open(self, code: str) -> bytes | None:
        """Return the nonce of a good code, None for another."""
        try:
            content = urlsafe_b64decode(code + "=" * (-len(code) % 4))
        except ValueError:
            return None
        if len(content) != _CODE_BYTES:
            return None
        signed, digest = content[: _NONCE_BYTES + _TIME_BYTES], content[-sha256().digest_size :]
        if not hmac.compare_digest(self._digest(signed), digest):
            return None
        nonce, ends_at = signed[:_NONCE_BYTES], int.from_bytes(signed[_NONCE_BYTES:])
        is_over = self._now() >= ends_at or nonce in self._used
        return None if is_over else nonce

    def _digest(self, content: bytes) -> bytes:
        return hmac.digest(self._key, b"console code" + content, sha256)


def key_file(folder: Path, port: int) -> Path:
    """Return the file with the key of the gateway that listens on a port of this machine."""
    return folder / f"console-{port}.key"


def write_key(path: Path, key: bytes) -> None:
    """Write a key for this user alone; ``path`` is in a folder that is private. Raises OSError."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
