"""Errors of calls: missing documents, refusals by guards, missing identity or credentials."""

from mcp_tools_proxy.domain.proxy_error import ProxyError


class DocumentRefused(ProxyError):
    """The caller cannot see the requested document or part, for any reason.

    Such a call is charged to the tenant's budgets, but not to the document's.
    """

    nothing_ran = True
    is_unbound = False
    """Whether the request, token or agent profile limits the caller to other documents."""


class AccessDenied(DocumentRefused):
    """The document belongs to other tenants only."""

    code = "ACCESS_DENIED"


class DocumentNotFound(DocumentRefused):
    """No document with this id is visible to the tenant."""

    code = "DOCUMENT_NOT_FOUND"


class VersionNotKept(DocumentRefused):
    """The document exists in another version than requested; ``details`` has the current one."""

    code = "VERSION_GONE"


class SectionNotFound(ProxyError):
    """The document does not contain this section."""

    code = "SECTION_NOT_FOUND"


class PagesNotFound(ProxyError):
    """All requested pages lie past the document's end."""

    code = "PAGES_NOT_FOUND"


class ChunkNotFound(ProxyError):
    """The Retrieval Service does not know the anchor chunk."""

    code = "CHUNK_NOT_FOUND"


class PageImageUnavailable(ProxyError):
    """A page cannot be shown as an image: the document's PDF is not kept, or cannot be rendered."""

    code = "PAGE_IMAGE_UNAVAILABLE"


class GuardRefused(ProxyError):
    """A guard refused the arguments or the result; ``details`` describes the findings."""

    code = "GUARD_REFUSED"


class IdentityRequired(ProxyError):
    """The server needs a part of the caller's identity that the request lacks: ``details.part``."""

    code = "IDENTITY_REQUIRED"


class CredentialsMissing(ProxyError):
    """The secret for this caller is missing; ``reason`` has its path, for operators only."""

    code = "CREDENTIALS_MISSING"


class LoginRequired(ProxyError):
    """A login to the server is required; ``details.url`` is the sign-in page, if one exists."""

    code = "LOGIN_REQUIRED"
    nothing_ran = True
    command: str | None = None
    """The command with which an operator signs in."""

    @property
    def as_text(self) -> str:
        """The error as a model reads it, with the URL to show the user."""
        url = (self.details or {}).get("url")
        return super().as_text if url is None else f"{super().as_text}: {url}"


class CredentialsInsufficient(ProxyError):
    """The server or its issuer does not accept the gateway's credentials for this caller."""

    code = "CREDENTIALS_INSUFFICIENT"
    nothing_ran = True


class RunRefused(ProxyError):
    """A run, or a policy over runs, refused the call; ``details.policy_ids`` names the policies."""

    nothing_ran = True


class PolicyDenied(RunRefused):
    """A policy forbids the call; the message is the policy's own, if it has one."""

    code = "POLICY_DENIED"


class PolicyUnavailable(RunRefused):
    """A policy that applies to the call cannot be evaluated; ``reason`` tells an operator why."""

    code = "POLICY_UNAVAILABLE"
    retryable = True


class RunRequired(RunRefused):
    """A policy reads the facts of a run, and the request names none."""

    code = "RUN_REQUIRED"


class RunExpired(RunRefused):
    """The run has ended; its id cannot be used again."""

    code = "RUN_EXPIRED"


class LoopStopped(RunRefused):
    """The same call failed several times in this run, or the run reached a limit."""

    code = "LOOP_STOPPED"


class ApprovalPending(RunRefused):
    """The call waits for the approval of a second person; ``details.approval_id`` names it."""

    code = "APPROVAL_PENDING"
