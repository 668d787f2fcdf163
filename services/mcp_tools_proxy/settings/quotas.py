"""Settings of the quotas: how much one tenant may store."""

from mcp_tools_proxy.domain.quota import Quota
from mcp_tools_proxy.settings.types import Budget, EnvironmentSettings


class QuotaSettings(EnvironmentSettings):
    """What requests and the console may store for one tenant; the commands have no limit."""

    quota_tokens: Budget = 1000
    """Maximum tokens of a tenant in the tokens file, including expired ones; 0 is off."""
    quota_token_bytes: Budget = 1_048_576
    """Maximum size of a tenant's lines in the tokens file, in bytes; the gateway keeps them in
    memory. 0 is off."""
    quota_documents: Budget = 10_000
    """Maximum documents of a tenant; 0 is off. The titles, tags, readers and OCR values of its
    documents, which the gateway keeps in memory, may take 1,024 bytes times this number."""
    quota_document_bytes: Budget = 1_073_741_824
    """Maximum size of a tenant's documents and kept PDFs, in bytes; a document counts with its
    largest kept version. 0 is off."""
    quota_logins: Budget = 10_000
    """Maximum logins to servers of a tenant's users; 0 is off."""
    quota_login_bytes: Budget = 67_108_864
    """Maximum size of a tenant's logins to servers, in bytes; 0 is off."""

    @property
    def token_quota(self) -> Quota:
        """The quota of tokens."""
        return Quota(kind="tokens", count=self.quota_tokens, bytes=self.quota_token_bytes)

    @property
    def document_quota(self) -> Quota:
        """The quota of documents."""
        return Quota(kind="documents", count=self.quota_documents, bytes=self.quota_document_bytes)

    @property
    def login_quota(self) -> Quota:
        """The quota of logins."""
        return Quota(kind="logins", count=self.quota_logins, bytes=self.quota_login_bytes)
