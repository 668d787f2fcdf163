"""The base of all errors that callers see, and errors that are kept after they were caught."""

from collections.abc import Mapping
from typing import ClassVar, Self, TypeVar

from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.json_objects import without_none

MAY_BE_DONE = "the server may have carried the call out, so check before you make it again"
"""Ends the message of a call that was sent, may have side effects, and got no response."""


class ProxyError(Exception):
    """A failure with a stable ``code``; shown to the caller as the envelope's ``error``.

    ``details`` is JSON-able. ``retryable``: the same call may succeed later, ``retry_after_s``
    (seconds) from now. Three fields are for records only: ``reason``; ``rule``, the place of the
    rule that refused; and ``proven``, what was verified of the caller's tenant and token.
    """

    code: ClassVar[str]
    retryable: bool = False
    nothing_ran: bool = False
    """Nothing was sent to a server, and no component has run, though the error is final."""
    proven: Mapping[str, str] | None = None
    rule: RuleSource | None = None
    denied_name: str | None = None
    """The listed name of the item that a rule denies: of a URI that a template matched, the
    template; for records only."""
    denied_server: str | None = None
    """The server that the denied name is of, as far as it is known; for records only."""

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
        """Mark this error as one of a call that a server may have carried out; return it.

        Such an error is not retryable: sent again, the call might do its work twice.
        """
        self.retryable = self.nothing_ran = False
        self.retry_after_s = None
        self.message = f"{self.message}; {MAY_BE_DONE}"
        return self

    @property
    def is_outcome(self) -> bool:
        """Whether the call was carried out as far as it can be: an idempotency key keeps that."""
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
        """The error as a model reads it: its code, its message, and when to try again."""
        text = f"{self.code}: {self.message}"
        if self.retry_after_s is None:
            return text
        return f"{text} (try again in {self.retry_after_s:g} s)"


E = TypeVar("E", bound=BaseException)


def without_frames(error: E) -> E:
    """Return ``error`` without its traceback; the errors that it followed lose theirs, too.

    Required where an error is kept: in an outcome, a variable, a future. A traceback refers to the
    frames that the error passed, and so to their arguments and results. Often one of these frames
    refers to the error, and nothing is freed before the next full garbage collection: five refused
    results of 600,000 keys held 641 MB. Libraries keep errors as well, such as aiohttp that of a
    torn body, so all errors of the chain are separated from each other.
    """
    behind: list[BaseException | None] = [error]
    while behind:
        found = behind.pop()
        if found is not None:
            behind += (found.__cause__, found.__context__)
            found.__traceback__ = found.__cause__ = found.__context__ = None
    return error
