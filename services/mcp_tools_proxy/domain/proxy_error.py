"""The base of all errors that callers see, and a helper to store caught errors."""

from collections.abc import Mapping
from typing import ClassVar, Self, TypeVar

from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.json_objects import without_none

MAY_BE_DONE = "the server may have carried the call out, so check before you make it again"
"""Ends the message of a call that was sent, may have side effects, and received no response."""


class ProxyError(Exception):
    """A failure with a stable ``code``; shown to the caller as the envelope's ``error``.

    ``details`` is serializable as JSON. ``retryable`` means that the same call can succeed after
    ``retry_after_s`` seconds. For records only: ``reason``, ``rule`` (the refusing rule), and
    ``proven`` (the caller's verified tenant and token).
    """

    code: ClassVar[str]
    retryable: bool = False
    nothing_ran: bool = False
    """Nothing was sent to a server and no component ran, although the error is final."""
    proven: Mapping[str, str] | None = None
    rule: RuleSource | None = None
    denied_name: str | None = None
    """The listed name of the denied item (the template's, for a URI that a template matched);
    for records only."""
    denied_server: str | None = None
    """The server of the denied item, if known; for records only."""
    reads_untrusted: bool = False
    """Whether the error's text can quote a document that is marked untrusted."""

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
        """Mark this error as one after which the server may have executed the call; return it.

        The error becomes final, because a repeated call could execute twice.
        """
        self.retryable = self.nothing_ran = False
        self.retry_after_s = None
        self.message = f"{self.message}; {MAY_BE_DONE}"
        return self

    @property
    def is_outcome(self) -> bool:
        """Whether the error is final for the call; idempotency keys store such errors."""
        return not (self.retryable or self.nothing_ran)

    @property
    def as_json(self) -> dict[str, object]:
        """The error as callers receive it, without empty fields (contract §1)."""
        fields = {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable or None,
            "retry_after_s": self.retry_after_s,
            "details": self.details,
        }
        return without_none(fields)

    @property
    def as_text(self) -> str:
        """The error as a model reads it: code, message, and retry time."""
        text = f"{self.code}: {self.message}"
        if self.retry_after_s is None:
            return text
        return f"{text} (try again in {self.retry_after_s:g} s)"


E = TypeVar("E", bound=BaseException)


def without_frames(error: E) -> E:
    """Return ``error`` without its traceback, and without the chained errors.

    Required for errors stored in an outcome, variable or future. A traceback refers to the frames
    that the error passed, with arguments and results, and often one of them to the error, so that
    nothing is freed before the next full garbage collection: five refused results of 600,000 keys
    held 641 MB. Libraries store errors too (aiohttp: of a torn body), so the whole chain is
    unlinked.
    """
    behind: list[BaseException | None] = [error]
    while behind:
        found = behind.pop()
        if found is not None:
            behind += (found.__cause__, found.__context__)
            found.__traceback__ = found.__cause__ = found.__context__ = None
    return error
