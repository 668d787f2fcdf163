"""Encryption of stored records."""

import secrets
from collections.abc import Sequence
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES = 12


class RecordCipher:
    """Encrypts with the first of ``keys`` and decrypts with any of them.

    Uses AES-256-GCM with the record's name as associated data, so records cannot be swapped.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Derive AES keys; ``keys`` have high entropy, so one SHA-256 suffices."""
        self._ciphers = [AESGCM(sha256(key).digest()) for key in keys]

    def encrypt(self, content: bytes, name: bytes) -> bytes:
        """Return ``content`` encrypted for the record ``name``."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, content, name)

    def decrypt(self, encrypted: bytes, name: bytes) -> bytes | None:
        """Return the content of the record ``name``; None if no key decrypts it."""
        found = (_decrypt(cipher, encrypted, name) for cipher in self._ciphers)
        return next((content for content in found if content is not None), None)

    def is_of_first_key(self, encrypted: bytes, name: bytes) -> bool:
        """Return whether the record ``name`` is encrypted with the first key."""
        return _decrypt(self._ciphers[0], encrypted, name) is not None


def _decrypt(cipher: AESGCM, encrypted: bytes, name: bytes) -> bytes | None:
    nonce, rest = encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:]
    try:
        return cipher.decrypt(nonce, rest, name)
    except (InvalidTag, ValueError):
        return None
