"""Every failure a caller can meet, one class for each stable code (contract §1, §2).

A class stands for what the caller should do next: fix the request, request something else, wait,
or give up. ``message`` is written for the caller: it names no secret, no path and nothing of
another tenant. Libraries' exceptions are converted to these where the library is called.

ProxyError
├── request:   InvalidRequest · PayloadTooLarge · RouteNotFound · MethodNotAllowed
├── operator:  Unauthenticated · Forbidden · PresetNotFound · PresetPinned · ConfigReadOnly ·
│              NoSuchDocumentHere · NoSuchTokenHere · DocumentsReadOnly · ImportBusy ·
│              UnsupportedFormat · VersionRequired · VersionMismatch · StoreUnavailable ·
│              QuotaExceeded
├── naming:    AgentNotFound · AgentRequired · ToolNotFound · ToolNotAllowed · AmbiguousName ·
│              PromptNotFound · PromptNotAllowed · ResourceNotFound · ResourceNotAllowed
├── arguments: InvalidArguments · PageSpanTooLarge · WindowTooLarge · ContentBlocked
├── documents: AccessDenied · DocumentNotFound · VersionNotKept · SectionNotFound · PagesNotFound ·
│              ChunkNotFound · PageImageUnavailable
├── identity:  IdentityRequired · CredentialsMissing · LoginRequired · CredentialsInsufficient
├── repeating: IdempotencyConflict · OutcomeUnknown
├── waiting:   RateLimitExceeded · LimitsUnavailable · RetrievalUnavailable ·
│              ServerUnavailable · ServerBusy · ToolTimeout · StateUnavailable ·
│              DocumentsUnavailable · AuditUnavailable · LoginsUnavailable · ShuttingDown
└── giving up: RetrievalNotConfigured · ToolFailed · ResultTooLarge · GuardRefused · InternalError
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from mcp_tools_proxy.domain.budget import BudgetStatus
from mcp_tools_proxy.domain.call_errors import AccessDenied as AccessDenied
from mcp_tools_proxy.domain.call_errors import ChunkNotFound as ChunkNotFound
from mcp_tools_proxy.domain.call_errors import CredentialsInsufficient as CredentialsInsufficient
from mcp_tools_proxy.domain.call_errors import CredentialsMissing as CredentialsMissing
from mcp_tools_proxy.domain.call_errors import DocumentNotFound as DocumentNotFound
from mcp_tools_proxy.domain.call_errors import DocumentRefused as DocumentRefused
from mcp_tools_proxy.domain.call_errors import GuardRefused as GuardRefused
from mcp_tools_proxy.domain.call_errors import IdentityRequired as IdentityRequired
from mcp_tools_proxy.domain.call_errors import LoginRequired as LoginRequired
from mcp_tools_proxy.domain.call_errors import PageImageUnavailable as PageImageUnavailable
from mcp_tools_proxy.domain.call_errors import PagesNotFound as PagesNotFound
from mcp_tools_proxy.domain.call_errors import SectionNotFound as SectionNotFound
from mcp_tools_proxy.domain.call_errors import VersionNotKept as VersionNotKept
from mcp_tools_proxy.domain.proxy_error import MAY_BE_DONE as MAY_BE_DONE
from mcp_tools_proxy.domain.proxy_error import ProxyError as ProxyError


class InvalidRequest(ProxyError):
    """The request itself is malformed; ``details.field`` names the place."""

    code = "INVALID_REQUEST"


class PayloadTooLarge(ProxyError):
    """The request body is over ``max_request_bytes``."""

    code = "PAYLOAD_TOO_LARGE"


class RouteNotFound(ProxyError):
    """No such path."""

    code = "NOT_FOUND"


class MethodNotAllowed(ProxyError):
    """The path exists, but not with this method."""

    code = "METHOD_NOT_ALLOWED"


class Unauthenticated(ProxyError):
    """The operation needs a bearer token, and the request has none or a wrong one.

    ``token_refused``: the request has a token that is invalid, expired or revoked. ``reason`` and
    ``token_fields`` are for the record alone: whose token it was.
    """

    code = "UNAUTHENTICATED"

    def __init__(
        self,
        message: str,
        *,
        token_refused: bool = False,
        retry_after_s: float | None = None,
        reason: str | None = None,
        token_fields: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s, reason=reason)
        self.token_refused = token_refused
        self.token_fields = token_fields or {}


class Forbidden(ProxyError):
    """The caller may not do this, or no caller may; the message names what is allowed."""

    code = "FORBIDDEN"


class PresetNotFound(ProxyError):
    """No preset file has this id, or it is invalid; ``details.problems`` lists the errors."""

    code = "PRESET_NOT_FOUND"


class PresetPinned(ProxyError):
    """The preset is fixed by the environment."""

    code = "PRESET_PINNED"


class ConfigReadOnly(ProxyError):
    """The choice cannot be written to the configuration folder."""

    code = "CONFIG_READ_ONLY"


class NoSuchDocumentHere(RouteNotFound):
    """The tenant has no document of that id: to an operator, who sees every document."""


class NoSuchTokenHere(RouteNotFound):
    """No token has that id, or only one that may do more than the operator's own."""


class DocumentsReadOnly(ProxyError):
    """The documents cannot be changed: the folder, or the database, is read-only."""

    code = "DOCUMENTS_READ_ONLY"


class ImportBusy(ProxyError):
    """As many imports or uploads run as may at once, of all tenants or of this one."""

    code = "IMPORT_BUSY"
    retryable = True


class UnsupportedFormat(ProxyError):
    """The body is of a type that is no document's, and has no importer."""

    code = "UNSUPPORTED_FORMAT"


class VersionRequired(ProxyError):
    """The request would replace or remove a document, and does not say which version of it."""

    code = "VERSION_REQUIRED"


class VersionMismatch(ProxyError):
    """The document has another version than the request says; ``details.version`` is its own."""

    code = "VERSION_MISMATCH"


class QuotaExceeded(ProxyError):
    """The tenant would store more than its quota; ``details`` has the limit and what is used."""

    code = "QUOTA_EXCEEDED"


class AgentNotFound(ProxyError):
    """The request names an agent profile that does not exist."""

    code = "AGENT_NOT_FOUND"


class AgentRequired(ProxyError):
    """The request names no agent, and this gateway requires one."""

    code = "AGENT_REQUIRED"


class AmbiguousName(ProxyError):
    """Several components share this name; ``details.candidates`` are unique names (A-10)."""

    code = "AMBIGUOUS_NAME"


class ToolNotFound(ProxyError):
    """No tool has this name; ``details.expected`` describes the form of a name."""

    code = "TOOL_NOT_FOUND"


class NotAllowed(ProxyError):
    """The component exists, but not for this caller; ``reason`` explains why."""


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
    """The arguments do not fit the tool's schema; the message names the argument (T-01)."""

    code = "INVALID_ARGUMENTS"


class PageSpanTooLarge(ProxyError):
    """The call requests more pages than ``max_pages_per_call``."""

    code = "PAGE_SPAN_TOO_LARGE"


class WindowTooLarge(ProxyError):
    """One side of the requested chunk window exceeds the radius in force (T-02)."""

    code = "WINDOW_TOO_LARGE"


class ContentBlocked(ProxyError):
    """An argument holds a blocked keyword; ``reason`` is the keyword (T-06)."""

    code = "CONTENT_BLOCKED"


class IdempotencyConflict(ProxyError):
    """The idempotency key stands for a call of another tool, or with other arguments."""

    code = "IDEMPOTENCY_CONFLICT"


class OutcomeUnknown(ProxyError):
    """The call of this idempotency key was made before, and nobody knows any more how it ended."""

    code = "OUTCOME_UNKNOWN"


class StateUnavailable(ProxyError):
    """No record can be kept of a call with an idempotency key, so it was not made."""

    code = "STATE_UNAVAILABLE"
    retryable = True


class RateLimitExceeded(ProxyError):
    """A budget is used up; its window ends in ``retry_after_s`` (T-09).

    ``budget`` is what a caller sees of it.
    """

    code = "RATE_LIMIT_EXCEEDED"
    retryable = True
    budget: BudgetStatus | None = None


class LimitsUnavailable(ProxyError):
    """No budget is known: limits.json could not be read since the start, so no call is taken."""

    code = "LIMITS_UNAVAILABLE"
    retryable = True


class RetrievalUnavailable(ProxyError):
    """The Retrieval Service failed, was late, or sent an invalid response (T-03)."""

    code = "RETRIEVAL_UNAVAILABLE"
    retryable = True


class DocumentsUnavailable(ProxyError):
    """The store of the documents cannot be read now, or did not answer in time."""

    code = "DOCUMENTS_UNAVAILABLE"
    retryable = True


class StoreUnavailable(DocumentsUnavailable):
    """The same for an operator's request, which is no call: with a status of its own."""


class AuditUnavailable(ProxyError):
    """No record of the call could be kept, and this gateway makes no call without one."""

    code = "AUDIT_UNAVAILABLE"
    retryable = True


class ServerUnavailable(ProxyError):
    """The downstream server is not connected, or the connection broke during the call."""

    code = "SERVER_UNAVAILABLE"
    retryable = True


class LoginsUnavailable(ServerUnavailable):
    """The store of logins does not work now, so a server that needs one cannot be called."""


class ServerBusy(ProxyError):
    """The server, or the check of arguments, has as many calls in flight as allowed."""

    code = "SERVER_BUSY"
    retryable = True


class ToolTimeout(ProxyError):
    """The downstream server did not answer within the call's time-out."""

    code = "TOOL_TIMEOUT"


class QuotedText(NamedTuple):
    """A server's words, longer than they are quoted, and what builds the message that does so."""

    text: str
    message_of: Callable[[str], str]


class ToolFailed(ProxyError):
    """The downstream server answered with an error; its content is in ``details``."""

    code = "TOOL_FAILED"
    quoted: QuotedText | None = None
    """The server's own words, where the message quotes a part of them."""


class RetrievalNotConfigured(ProxyError):
    """``retrieval_window_url`` is not set (T-03)."""

    code = "RETRIEVAL_NOT_CONFIGURED"
    nothing_ran = True


class ResultTooLarge(ProxyError):
    """The result is over ``max_result_bytes``."""

    code = "RESULT_TOO_LARGE"


class ShuttingDown(ProxyError):
    """This replica is stopping; another one will answer."""

    code = "SHUTTING_DOWN"
    retryable = True


class InternalError(ProxyError):
    """A defect of ours; the exception's text is only in the log."""

    code = "INTERNAL_ERROR"

    def __init__(
        self,
        message: str = "internal error; tell the operator the trace_id: the log has it",
    ) -> None:
        super().__init__(message)


_MODULES = (__name__, DocumentRefused.__module__)
"""Where the errors with codes of the contract are; a test may define others."""


@cache
def errors_by_code() -> Mapping[str, type[ProxyError]]:
    """Return the errors of these modules by their code, in the order of the modules."""
    return {error.code: error for error in _subclasses(ProxyError) if "code" in vars(error)}


def error_from_json(fields: Mapping[str, object]) -> ProxyError | None:
    """Return the error whose ``as_json`` was ``fields``; None if its code is unknown here."""
    kind = errors_by_code().get(str(fields.get("code")))
    if kind is None:
        return None
    error = kind(str(fields.get("message")))
    error.retryable = fields.get("retryable") is True
    retry_after_s, details = fields.get("retry_after_s"), fields.get("details")
    error.retry_after_s = retry_after_s if isinstance(retry_after_s, int | float) else None
    error.details = details if isinstance(details, Mapping) else None
    return error


def _subclasses(base: type[ProxyError]) -> Iterator[type[ProxyError]]:
    for error in base.__subclasses__():
        if error.__module__ in _MODULES:
            yield error
            yield from _subclasses(error)
