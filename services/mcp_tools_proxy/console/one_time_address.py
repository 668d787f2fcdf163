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

from mcp_tools_proxy.storage.cache_folder import make_private
from mcp_tools_proxy.storage.logins.sign_in_store import RecordKind, SignInStore

CODE_S = 600
"""Validity of a code in seconds."""

_NONCE_BYTES = 32
_TIME_BYTES = 8
_CODE_BYTES = _NONCE_BYTES + _TIME_BYTES + sha256().digest_size


log = structlog.get_logger()


class OneTimeAddresses:
    """One-time addresses for the gateway on a port, all signed with ``key``.

    The key is in a file of ``folder`` while the gateway runs. ``store`` keeps the used codes; it is
    the same in all worker processes. ``now`` returns seconds since 1970.
    """

    def __init__(
        self, folder: Path, key: bytes, store: SignInStore, now: Callable[[], float]
    ) -> None:
        self._folder = folder
        self._key = key
        self._store = store
        self._now = now
        self._file: Path | None = None

    def open(self, host: str, port: int) -> str:
        """Write the key to the file of this port, and return an address.

        If the folder is not writable, only this address works.
        """
        file = key_file(self._folder, port)
        try:
            make_private(self._folder)
            _write_key(file, self._key)
        except OSError as error:
            log.warning("console.key_not_kept", path=str(file), reason=error.strerror or str(error))
        else:
            self._file = file
        return address_of(_new_code(self._key, self._now()), host, port)

    async def is_valid(self, code: str) -> bool:
        """Return whether a code is valid and not used. Raises LoginsUnavailable."""
        used = self._name_of(code)
        return used is not None and await self._store.find(RecordKind.CONSOLE, used) is None

    async def redeem(self, code: str) -> bool:
        """Use a code; return whether it was valid and not used. Raises LoginsUnavailable."""
        used = self._name_of(code)
        if used is None:
            return False
        mark = secrets.token_bytes(_NONCE_BYTES)
        return await self._store.add(RecordKind.CONSOLE, used, mark, CODE_S) == mark

    def close(self) -> None:
        """Remove the key file unless another gateway on this port has replaced it."""
        if self._file is None:
            return
        with suppress(FileNotFoundError):
            if self._file.read_bytes() == self._key:
                self._file.unlink()

    def _name_of(self, code: str) -> str | None:
        """Return the name of the record of a used code; None for a code that is not valid."""
        try:
            content = urlsafe_b64decode(code + "=" * (-len(code) % 4))
        except ValueError:
            return None
        if len(content) != _CODE_BYTES:
            return None
        signed, digest = content[: _NONCE_BYTES + _TIME_BYTES], content[-sha256().digest_size :]
        if not hmac.compare_digest(_digest(self._key, signed), digest):
            return None
        ends_at = int.from_bytes(signed[_NONCE_BYTES:])
        return None if self._now() >= ends_at else f"code:{digest.hex()}"


def new_address(folder: Path, host: str, port: int, now: Callable[[], float]) -> str | None:
    """Return a new address of the gateway on a port; None without a key file.

    Raises OSError.
    """
    try:
        key = key_file(folder, port).read_bytes()
    except FileNotFoundError:
        return None
    return address_of(_new_code(key, now()), host, port)


def _new_code(key: bytes, now: float) -> str:
    """Return a new code: a 256-bit random nonce, the expiry time, and the MAC of both."""
    ends_at = int(now) + CODE_S
    content = secrets.token_bytes(_NONCE_BYTES) + ends_at.to_bytes(_TIME_BYTES)
    return urlsafe_b64encode(content + _digest(key, content)).decode().rstrip("=")


def _digest(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, b"console code" + content, sha256)


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
