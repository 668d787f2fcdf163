"""The errors of calls that lack what their server needs to know of the caller."""

from mcp_tools_proxy.domain.proxy_error import ProxyError


class IdentityRequired(ProxyError):
    """The server needs a part of the caller's identity that the request lacks: ``details.part``."""

    code = "IDENTITY_REQUIRED"


class CredentialsMissing(ProxyError):
    """There is no secret for this caller; ``reason`` has its path, for operators only."""

    code = "CREDENTIALS_MISSING"
