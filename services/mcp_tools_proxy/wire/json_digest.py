"""Digests of JSON values that do not depend on how they are written."""

from hashlib import sha256

from pydantic_core import to_json


def json_digest(value: object) -> bytes:
    """Return the SHA-256 of a value as canonical JSON.

    Keys are sorted and 1.0 becomes 1 as in RFC 8785, because JavaScript programs change numbers in
    this way.
    """
    return sha256(to_json(_canonical(value))).digest()


def _canonical(value: object) -> object:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_canonical(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
