"""The failure of a call, as its caller is told of it; the codes are in ``domain.errors``."""

from collections.abc import Mapping
from typing import ClassVar, Self

MAY_BE_DONE = "the server may have carried the call out, so check before you make it again"
"""What the message says of a call that was sent, may change things, and got no answer."""


class ProxyError(Exception):
    """A failure with a stable ``code``; shown to the caller as the envelope's ``error``.

    ``details`` is JSON-able. ``retryable`` says that the very same call may succeed later, and
    ``retry_after_s`` (seconds) when. For the log, not for the caller: ``reason``, and ``proven``,
    tenant and token of the caller as far as they were proven before.
    """

    code: ClassVar[str]
    retryable: bool = False
    proven: Mapping[str, str] | None = None

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, object] | None = None,
        retry_after_s: float | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.retry_after_s = retry_after_s
        self.reason = reason

    def after_sending(self) -> Self:
        """Return this error, marked as one of a call that a server may have carried out.

        It is not retryable: sent again, the call might do its work twice.
        """
        self.retryable = False
        self.retry_after_s = None
        self.message = f"{self.message}; {MAY_BE_DONE}"
        return self

    @property
    def as_json(self) -> dict[str, object]:
        """The error as callers are told of it; absent keys are left out (contract §1)."""
        told = {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable or None,
            "retry_after_s": self.retry_after_s,
            "details": self.details,
        }
        return {key: value for key, value in told.items() if value is not None}
