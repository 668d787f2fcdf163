"""One-time sign-in addresses for users with access to this machine's terminal.

Codes are signed with a key in a file that only this user can read. The command ``console`` can
therefore create one without contacting the running gateway.
"""

import hmac
import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import structlog

from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.storage.cache_folder import make_private

CODE_S = 600
"""Validity of a code in seconds."""

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
"""The principal of users who sign in with a one-time address."""

_NONCE_BYTES = 32
_TIME_BYTES = 8
_CODE_BYTES = _NONCE_BYTES + _TIME_BYTES + sha256().digest_size


log = structlog.get_logger()


class OneTimeCodes:
    """Creates and redeems codes with ``key``; ``now`` returns seconds since 1970."""

    def __init__(self, key: bytes, now: Callable[[], float]) -> None:
        self._key = key
        self._now = now
        self._used: dict[bytes, float] = {}

    def make(self) -> str:
        """Return a new code: a 256-bit random nonce, the expiry time, and the MAC of both."""
        ends_at = int(self._now()) + CODE_S
        content = secrets.token_bytes(_NONCE_BYTES) + ends_at.to_bytes(_TIME_BYTES)
        return urlsafe_b64encode(content + self._digest(content)).decode().rstrip("=")

    def is_good(self, code: str) -> bool:
        """Return whether a code is valid, without redeeming it."""
        return self._open(code) is not None

    def redeem(self, code: str) -> bool:
        """Redeem a code; return whether it was valid."""
        nonce = self._open(code)
        if nonce is None:
            return False
        now = self._now()
        self._used = {it: until for it, until in self._used.items() if until > now}
        self._used[nonce] = now + CODE_S
        return True

    def _open(self, code: str) -> bytes | None:
        """Return the nonce of a valid code, otherwise None."""
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


class OneTimeAddresses:
    """Creates one-time addresses for the gateway on a port.

    The key is in a file of ``folder`` while the gateway runs.
    """

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        self._folder = folder
        self._now = now
        self._file: Path | None = None
        self._key = secrets.token_bytes(_NONCE_BYTES)
        self.codes = OneTimeCodes(self._key, now)

    def open(self, host: str, port: int) -> str:
        """Write a new key to the file of this port, and return the first address.

        If the folder is not writable, only this address works.
        """
        key = self._key = secrets.token_bytes(_NONCE_BYTES)
        self.codes = OneTimeCodes(key, self._now)
        file = key_file(self._folder, port)
        try:
            make_private(self._folder)
            _write_key(file, key)
        except OSError as error:
            log.warning("console.key_not_kept", path=str(file), reason=error.strerror or str(error))
        else:
            self._file = file
        return address_of(self.codes.make(), host, port)

    def close(self) -> None:
        """Remove the key file unless another gateway on this port has replaced it."""
        if self._file is None:
            return
        with suppress(FileNotFoundError):
            if self._file.read_bytes() == self._key:
                self._file.unlink()


def new_address(folder: Path, host: str, port: int, now: Callable[[], float]) -> str | None:
    """Return a new address of the gateway on a port; None without a key file.

    Raises OSError.
    """
    try:
        key = key_file(folder, port).read_bytes()
    except FileNotFoundError:
        return None
    return address_of(OneTimeCodes(key, now).make(), host, port)


def address_of(code: str, host: str, port: int) -> str:
    """Return the one-time address with a code."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/console/begin?code={code}"


def key_file(folder: Path, port: int) -> Path:
    """Return the path of the key file of the gateway on a port."""
    return folder / f"console-{port}.key"


def _write_key(path: Path, key: bytes) -> None:
    """Write a key readable only by this user. Raises OSError."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
