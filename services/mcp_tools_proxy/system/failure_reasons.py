"""Reasons of connection failures in the operating system's words, without addresses."""

import os
import re
import socket
import ssl
from collections.abc import Iterator

_NUMBER = re.compile(r"\[?Err(?:no|or) (\d{1,3})[\] ]")
"""The error number in the texts of libraries, such as for several failed attempts."""


def connection_reason(error: BaseException) -> str | None:
    """Return why a connection failed, such as "connection refused"; None if unknown."""
    for found in _causes(error):
        reason = _reason_of(found)
        if reason is not None:
            return reason
    return None


def redis_reason(error: BaseException) -> str:
    """Return why a request to Redis failed, without address and credentials.

    Exceptions are matched by name, because importing redis-py is slow.
    """
    name, text = type(error).__name__, str(error)
    if name == "AuthenticationError" or any(it in text for it in _NOT_AUTHENTICATED):
        return "authentication failed"
    if name == "ReadOnlyError":
        return "it is a read-only replica"
    return connection_reason(error) or name


_NOT_AUTHENTICATED = ("NOAUTH", "WRONGPASS", "invalid username-password pair", "invalid password")


def _reason_of(error: BaseException) -> str | None:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate was not accepted: {error.verify_message}"
        case ssl.SSLError():
            return "the TLS handshake failed"
        case socket.gaierror():
            return "its host name cannot be resolved"
        case TimeoutError() if not error.errno:
            return "no answer in time"
        case ConnectionRefusedError():
            return "connection refused"
        case OSError() if error.errno:
            return _lower(os.strerror(error.errno))
    number = _NUMBER.search(str(error))
    return None if number is None else _lower(os.strerror(int(number[1])))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the causes of an error, the first cause first."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        else:
            error = error.__cause__ or error.__context__
    yield from reversed(chain)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
