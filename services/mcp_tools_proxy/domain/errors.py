"""Every failure a caller can meet, one class for each stable code (contract §1, §2).

A class says what its reader should do next: fix the request, ask for something else, wait, or
give up. ``message`` is written for that reader: it names no secret, no path and nothing of another
tenant. Foreign exceptions are turned into these where the foreign library is called.

ProxyError
├── request:   InvalidRequest · PayloadTooLarge · RouteNotFound · MethodNotAllowed
├── operator:  Unauthenticated · Forbidden · PresetNotFound · PresetPinned · ConfigReadOnly
├── naming:    AgentNotFound · AgentRequired · ToolNotFound · ToolNotAllowed · AmbiguousName ·
│              PromptNotFound · PromptNotAllowed · ResourceNotFound · ResourceNotAllowed
├── arguments: InvalidArguments · PageSpanTooLarge · WindowTooLarge · ContentBlocked
├── documents: AccessDenied · DocumentNotFound · SectionNotFound · PagesNotFound · ChunkNotFound
├── waiting:   RateLimitExceeded · RetrievalUnavailable · ServerUnavailable · ServerBusy ·
│              ToolTimeout · ShuttingDown
└── giving up: RetrievalNotConfigured · ToolFailed · ResultTooLarge · InternalError
"""

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


class InvalidRequest(ProxyError):
    """The request itself is malformed; ``details.field`` says where."""

    code = "INVALID_REQUEST"


class PayloadTooLarge(ProxyError):
    """The request body is over ``max_request_bytes``."""

    code = "PAYLOAD_TOO_LARGE"


class RouteNotFound(ProxyError):
    """No such path."""

    code = "NOT_FOUND"


class MethodNotAllowed(ProxyError):
    """The path exists, not with this method."""

    code = "METHOD_NOT_ALLOWED"


class Unauthenticated(ProxyError):
    """The operation needs a bearer token, and this is none, or another one.

    ``token_refused`` says that there is one, which is not, or no longer, good.
    """

    code = "UNAUTHENTICATED"

    def __init__(
        self, message: str, *, token_refused: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.token_refused = token_refused


class Forbidden(ProxyError):
    """Who asks may not do this, or nobody may; the message says what would be allowed."""

    code = "FORBIDDEN"


class PresetNotFound(ProxyError):
    """No preset file has this id, or it is invalid; ``details.problems`` says what is wrong."""

    code = "PRESET_NOT_FOUND"


class PresetPinned(ProxyError):
    """The preset is fixed by the environment."""

    code = "PRESET_PINNED"


class ConfigReadOnly(ProxyError):
    """The choice cannot be written to the configuration folder."""

    code = "CONFIG_READ_ONLY"


class AgentNotFound(ProxyError):
    """The request names an agent profile that does not exist."""

    code = "AGENT_NOT_FOUND"


class AgentRequired(ProxyError):
    """The request names no agent, and without one nothing may be used here."""

    code = "AGENT_REQUIRED"


class AmbiguousName(ProxyError):
    """Several components go by this name; ``details.candidates`` are names of one each (A-10)."""

    code = "AMBIGUOUS_NAME"


class ToolNotFound(ProxyError):
    """No tool has this name; ``details.expected`` says what a name looks like."""

    code = "TOOL_NOT_FOUND"


class NotAllowed(ProxyError):
    """What the caller asks for is not for this caller; ``reason`` says why."""


class ToolNotAllowed(NotAllowed):
    """A tool that the caller's agent may not run, or a qualified name outside the caller's view."""

    code = "TOOL_NOT_ALLOWED"


class PromptNotFound(ProxyError):
    """No prompt of this name is visible to the caller."""

    code = "PROMPT_NOT_FOUND"


class PromptNotAllowed(NotAllowed):
    """A prompt that the caller's agent may not get (A-09)."""

    code = "PROMPT_NOT_ALLOWED"


class ResourceNotFound(ProxyError):
    """No resource of this URI is visible to the caller, or its server does not know it."""

    code = "RESOURCE_NOT_FOUND"


class ResourceNotAllowed(NotAllowed):
    """A resource that the caller's agent may not read (A-09, A-20)."""

    code = "RESOURCE_NOT_ALLOWED"


class InvalidArguments(ProxyError):
    """The tool's arguments do not fit; the message names the argument (T-01)."""

    code = "INVALID_ARGUMENTS"


class PageSpanTooLarge(ProxyError):
    """More pages asked for than ``max_pages_per_call``."""

    code = "PAGE_SPAN_TOO_LARGE"


class WindowTooLarge(ProxyError):
    """A side of the chunk window is over the radius in force (T-02)."""

    code = "WINDOW_TOO_LARGE"


class ContentBlocked(ProxyError):
    """An argument holds a blocked keyword, which is the ``reason`` (T-06)."""

    code = "CONTENT_BLOCKED"


class AccessDenied(ProxyError):
    """The document belongs to other tenants only."""

    code = "ACCESS_DENIED"


class DocumentNotFound(ProxyError):
    """No document of this id is visible to the tenant."""

    code = "DOCUMENT_NOT_FOUND"


class SectionNotFound(ProxyError):
    """The document has no such section."""

    code = "SECTION_NOT_FOUND"


class PagesNotFound(ProxyError):
    """The pages asked for lie wholly past the document's end."""

    code = "PAGES_NOT_FOUND"


class ChunkNotFound(ProxyError):
    """The Retrieval Service has no such anchor chunk."""

    code = "CHUNK_NOT_FOUND"


class RateLimitExceeded(ProxyError):
    """A budget is used up; ``retry_after_s`` says when its window ends (T-09)."""

    code = "RATE_LIMIT_EXCEEDED"
    retryable = True


class RetrievalUnavailable(ProxyError):
    """The Retrieval Service failed, was late, or answered something unusable (T-03)."""

    code = "RETRIEVAL_UNAVAILABLE"
    retryable = True


class ServerUnavailable(ProxyError):
    """The downstream server is not connected, or the connection broke during the call."""

    code = "SERVER_UNAVAILABLE"
    retryable = True


class ServerBusy(ProxyError):
    """The downstream server has as many calls in flight as its entry allows."""

    code = "SERVER_BUSY"
    retryable = True


class ToolTimeout(ProxyError):
    """The downstream server did not answer within the call's time."""

    code = "TOOL_TIMEOUT"


class ToolFailed(ProxyError):
    """The downstream server answered with an error; its content is in ``details``."""

    code = "TOOL_FAILED"


class RetrievalNotConfigured(ProxyError):
    """``retrieval_window_url`` is not set (T-03)."""

    code = "RETRIEVAL_NOT_CONFIGURED"


class ResultTooLarge(ProxyError):
    """The tool's result is over ``max_result_bytes``."""

    code = "RESULT_TOO_LARGE"


class ShuttingDown(ProxyError):
    """This replica is stopping; another one will answer."""

    code = "SHUTTING_DOWN"
    retryable = True


class InternalError(ProxyError):
    """A defect of ours; the exception's text is only in the log."""

    code = "INTERNAL_ERROR"

    def __init__(self, message: str = "internal error; the log has the trace_id") -> None:
        super().__init__(message)
