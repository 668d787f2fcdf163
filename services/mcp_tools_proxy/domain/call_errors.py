"""The errors of calls that name what is not there, or lack what a server needs to know."""

from mcp_tools_proxy.domain.proxy_error import ProxyError


class DocumentRefused(ProxyError):
    """What a call names of documents is not there for the caller, whatever the reason.

    Such a call is charged to the tenant's budgets, and not to the document's.
    """

    nothing_ran = True
    is_unbound = False
    """The caller may use other documents only: by its request, its token or its agent's profile."""


class AccessDenied(DocumentRefused):
    """The document belongs to other tenants only."""

    code = "ACCESS_DENIED"


class DocumentNotFound(DocumentRefused):
    """No document of this id is visible to the tenant."""

    code = "DOCUMENT_NOT_FOUND"


class VersionNotKept(DocumentRefused):
    """The document is there, but not in the version that a call names; ``details`` has its own."""

    code = "VERSION_GONE"


class SectionNotFound(ProxyError):
    """The document has no such section."""

    code = "SECTION_NOT_FOUND"


class PagesNotFound(ProxyError):
    """All requested pages lie past the document's end."""

    code = "PAGES_NOT_FOUND"


class ChunkNotFound(ProxyError):
    """The Retrieval Service has no such anchor chunk."""

    code = "CHUNK_NOT_FOUND"


class PageImageUnavailable(ProxyError):
    """A page cannot be shown as an image: no PDF of the document is kept, or it cannot be drawn."""

    code = "PAGE_IMAGE_UNAVAILABLE"


class GuardRefused(ProxyError):
    """A guard that refuses found something in the arguments or in the result: ``details``."""

    code = "GUARD_REFUSED"


class IdentityRequired(ProxyError):
    """The server needs a part of the caller's identity that the request lacks: ``details.part``."""

    code = "IDENTITY_REQUIRED"


class CredentialsMissing(ProxyError):
    """There is no secret for this caller; ``reason`` has its path, for operators only."""

    code = "CREDENTIALS_MISSING"


class LoginRequired(ProxyError):
    """Somebody has to sign in to the server first; ``details.url`` is where, if there is a page."""

    code = "LOGIN_REQUIRED"
    nothing_ran = True

    @property
    def as_text(self) -> str:
        """The error as a model reads it, with the address that it shows the user."""
        url = (self.details or {}).get("url")
        return super().as_text if url is None else f"{super().as_text}: {url}"


class CredentialsInsufficient(ProxyError):
    """The server, or its issuer, does not accept what the gateway has for this caller."""

    code = "CREDENTIALS_INSUFFICIENT"
    nothing_ran = True
