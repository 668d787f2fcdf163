"""All errors that callers can receive, one class for each stable code (contract §1, §2).

Each class determines the caller's next step: correct the request, choose another target, wait, or
give up. ``message`` is for the caller: without secrets, paths or data of other tenants. Exceptions
of libraries are converted at the library call.

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
├── runs:      RunRequired · RunExpired · LoopStopped · PolicyDenied · PolicyUnavailable ·
│              ApprovalPending
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
from mcp_tools_proxy.domain.call_errors import ApprovalPending as ApprovalPending
from mcp_tools_proxy.domain.call_errors import ChunkNotFound as ChunkNotFound
from mcp_tools_proxy.domain.call_errors import CredentialsInsufficient as CredentialsInsufficient
from mcp_tools_proxy.domain.call_errors import CredentialsMissing as CredentialsMissing
from mcp_tools_proxy.domain.call_errors import DocumentNotFound as DocumentNotFound
from mcp_tools_proxy.domain.call_errors import DocumentRefused as DocumentRefused
from mcp_tools_proxy.domain.call_errors import GuardRefused as GuardRefused
from mcp_tools_proxy.domain.call_errors import IdentityRequired as IdentityRequired
from mcp_tools_proxy.domain.call_errors import LoginRequired as LoginRequired
from mcp_tools_proxy.domain.call_errors import LoopStopped as LoopStopped
from mcp_tools_proxy.domain.call_errors import PageImageUnavailable as PageImageUnavailable
from mcp_tools_proxy.domain.call_errors import PagesNotFound as PagesNotFound
from mcp_tools_proxy.domain.call_errors import PolicyDenied as PolicyDenied
from mcp_tools_proxy.domain.call_errors import PolicyUnavailable as PolicyUnavailable
from mcp_tools_proxy.domain.call_errors import RunExpired as RunExpired
from mcp_tools_proxy.domain.call_errors import RunRefused as RunRefused
from mcp_tools_proxy.domain.call_errors import RunRequired as RunRequired
from mcp_tools_proxy.domain.call_errors import SectionNotFound as SectionNotFound
from mcp_tools_proxy.domain.call_errors import VersionNotKept as VersionNotKept
from mcp_tools_proxy.domain.proxy_error import MAY_BE_DONE as MAY_BE_DONE
from mcp_tools_proxy.domain.proxy_error import ProxyError as ProxyError


class InvalidRequest(ProxyError):
    """The request is malformed; ``details.field`` names the place."""

    code = "INVALID_REQUEST"


class PayloadTooLarge(ProxyError):
    """The request body exceeds ``max_request_bytes``."""

    code = "PAYLOAD_TOO_LARGE"


class RouteNotFound(ProxyError):
    """The path does not exist."""

    code = "NOT_FOUND"


class MethodNotAllowed(ProxyError):
    """The path exists, but not with this method."""

    code = "METHOD_NOT_ALLOWED"


class Unauthenticated(ProxyError):
    """The request lacks a valid bearer token.

    ``token_refused`` means that its token is invalid, expired or revoked. ``reason`` and
    ``token_fields`` identify the token in audit records only.
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
    """This caller, or any caller, may not do this; the message names the allowed alternative."""

    code = "FORBIDDEN"


class PresetNotFound(ProxyError):
    """The preset does not exist or is invalid; ``details.problems`` lists the errors."""

    code = "PRESET_NOT_FOUND"


class PresetPinned(ProxyError):
    """The environment fixes the preset."""

    code = "PRESET_PINNED"


class ConfigReadOnly(ProxyError):
    """The choice cannot be written to the configuration folder."""

    code = "CONFIG_READ_ONLY"


class NoSuchDocumentHere(RouteNotFound):
    """The tenant lacks this document (for operators, to whom all documents are visible)."""


class NoSuchTokenHere(RouteNotFound):
    """The token does not exist, or has more rights than the operator's own."""


class DocumentsReadOnly(ProxyError):
    """The documents cannot be changed: the folder or the database is read-only."""

    code = "DOCUMENTS_READ_ONLY"


class ImportBusy(ProxyError):
    """The limit of concurrent imports and uploads is reached, for all tenants or this one."""

    code = "IMPORT_BUSY"
    retryable = True


class UnsupportedFormat(ProxyError):
    """The content type of the body is neither a document's nor importable."""

    code = "UNSUPPORTED_FORMAT"


class VersionRequired(ProxyError):
    """A request to replace or remove a document lacks the version."""

    code = "VERSION_REQUIRED"


class VersionMismatch(ProxyError):
    """The document's current version differs from the requested one; ``details.version`` has it."""

    code = "VERSION_MISMATCH"


class QuotaExceeded(ProxyError):
    """The write exceeds the tenant's quota; ``details`` has the limit and the current usage."""

    code = "QUOTA_EXCEEDED"


class AgentNotFound(ProxyError):
    """The request names an agent profile that does not exist."""

    code = "AGENT_NOT_FOUND"


class AgentRequired(ProxyError):
    """The request lacks an agent, and this gateway requires one."""

    code = "AGENT_REQUIRED"


class AmbiguousName(ProxyError):
    """Several components share this name; ``details.candidates`` are unique names (A-10)."""

    code = "AMBIGUOUS_NAME"


class ToolNotFound(ProxyError):
    """The tool does not exist; ``details.expected`` describes the form of names."""

    code = "TOOL_NOT_FOUND"


class NotAllowed(ProxyError):
    """The component exists, but not for this caller; ``reason`` explains why."""


class ToolNotAllowed(NotAllowed):
    """The caller's agent may not run the tool, or a qualified name is outside the caller's view."""

    code = "TOOL_NOT_ALLOWED"


class PromptNotFound(ProxyError):
    """The prompt is not visible to the caller."""

    code = "PROMPT_NOT_FOUND"


class PromptNotAllowed(NotAllowed):
    """The caller's agent may not get the prompt (A-09)."""

    code = "PROMPT_NOT_ALLOWED"


class ResourceNotFound(ProxyError):
    """The resource is not visible to the caller, or its server does not know it."""

    code = "RESOURCE_NOT_FOUND"


class ResourceNotAllowed(NotAllowed):
    """The caller's agent may not read the resource (A-09, A-20)."""

    code = "RESOURCE_NOT_ALLOWED"


class InvalidArguments(ProxyError):
    """The arguments do not match the tool's schema; the message names the argument (T-01)."""

    code = "INVALID_ARGUMENTS"


class PageSpanTooLarge(ProxyError):
    """The call requests more pages than ``max_pages_per_call``."""

    code = "PAGE_SPAN_TOO_LARGE"


class WindowTooLarge(ProxyError):
    """One side of the requested chunk window exceeds the effective radius (T-02)."""

    code = "WINDOW_TOO_LARGE"


class ContentBlocked(ProxyError):
    """An argument contains a blocked keyword; ``reason`` is the keyword (T-06)."""

    code = "CONTENT_BLOCKED"


class IdempotencyConflict(ProxyError):
    """The idempotency key was used for another tool or with other arguments."""

    code = "IDEMPOTENCY_CONFLICT"


class OutcomeUnknown(ProxyError):
    """The call with this idempotency key was already made, and its outcome is unknown."""

    code = "OUTCOME_UNKNOWN"


class StateUnavailable(ProxyError):
    """A call with an idempotency key cannot be recorded, so it was not made."""

    code = "STATE_UNAVAILABLE"
    retryable = True


class RateLimitExceeded(ProxyError):
    """A budget is exhausted; its window ends in ``retry_after_s`` (T-09).

    ``budget`` is its status for the caller.
    """

    code = "RATE_LIMIT_EXCEEDED"
    retryable = True
    budget: BudgetStatus | None = None


class LimitsUnavailable(ProxyError):
    """limits.json has not been readable since the start, so all calls are refused."""

    code = "LIMITS_UNAVAILABLE"
    retryable = True


class RetrievalUnavailable(ProxyError):
    """The Retrieval Service failed, was late, or sent an invalid response (T-03)."""

    code = "RETRIEVAL_UNAVAILABLE"
    retryable = True


class DocumentsUnavailable(ProxyError):
    """The document store is unreadable now, or did not respond in time."""

    code = "DOCUMENTS_UNAVAILABLE"
    retryable = True


class StoreUnavailable(DocumentsUnavailable):
    """The same for an operator's request, which has a different HTTP status from a call."""


class AuditUnavailable(ProxyError):
    """The call cannot be recorded, and this gateway requires a record of each call."""

    code = "AUDIT_UNAVAILABLE"
    retryable = True


class ServerUnavailable(ProxyError):
    """The downstream server is not connected, or the connection broke during the call."""

    code = "SERVER_UNAVAILABLE"
    retryable = True


class LoginsUnavailable(ServerUnavailable):
    """The login store is down, so that a server that needs a login cannot be called."""


class ServerBusy(ProxyError):
    """The server, or the check of arguments, has reached its limit of concurrent calls."""

    code = "SERVER_BUSY"
    retryable = True


class ToolTimeout(ProxyError):
    """The downstream server did not respond within the call's timeout."""

    code = "TOOL_TIMEOUT"


class QuotedText(NamedTuple):
    """A server's full error text, and the function that builds a message with a quotation of it."""

    text: str
    message_of: Callable[[str], str]


class ToolFailed(ProxyError):
    """The downstream server answered with an error; its content is in ``details``."""

    code = "TOOL_FAILED"
    quoted: QuotedText | None = None
    """The server's full text if the message quotes only a part."""


class RetrievalNotConfigured(ProxyError):
    """``retrieval_window_url`` is not set (T-03)."""

    code = "RETRIEVAL_NOT_CONFIGURED"
    nothing_ran = True


class ResultTooLarge(ProxyError):
    """The result exceeds ``max_result_bytes``."""

    code = "RESULT_TOO_LARGE"


class ShuttingDown(ProxyError):
    """This replica is stopping; another one can answer."""

    code = "SHUTTING_DOWN"
    retryable = True


class InternalError(ProxyError):
    """A defect of the gateway; the exception's text is only in the log."""

    code = "INTERNAL_ERROR"

    def __init__(
        self,
        message: str = "internal error; tell the operator the trace_id: the log has it",
    ) -> None:
        super().__init__(message)


_MODULES = (__name__, DocumentRefused.__module__)
"""Modules of the contract's errors; tests can define others."""


@cache
def errors_by_code() -> Mapping[str, type[ProxyError]]:
    """Return the error classes of these modules by code, in the order of the modules."""
    return {error.code: error for error in _subclasses(ProxyError) if "code" in vars(error)}


def error_from_json(fields: Mapping[str, object]) -> ProxyError | None:
    """Return the error whose ``as_json`` was ``fields``; None if the code is unknown."""
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
