"""Settings of the quotas: how much one tenant may store."""

from mcp_tools_proxy.domain.quota import Quota
from mcp_tools_proxy.settings.types import Budget, EnvironmentSettings


class QuotaSettings(EnvironmentSettings):
    """What requests and the console may store for one tenant; the commands have no limit."""

    quota_tokens: Budget = 1000
    """Tokens of one tenant in the tokens file, expired ones included; 0 is off."""
    quota_token_bytes: Budget = 1_048_576
    """Bytes of one tenant's lines in the tokens file, which the gateway keeps in memory; 0 is
    off."""
    quota_documents: Budget = 10_000
    """Documents of one tenant. Titles, tags, readers and OCR values of its documents, which the
    gateway keeps in memory, may have 1,024 bytes for each of these; 0 is off."""
    quota_document_bytes: Budget = 1_073_741_824
    """Bytes of one tenant's documents and kept PDFs, a document counting as its largest kept
    version; 0 is off."""
    quota_logins: Budget = 10_000
    """Logins to servers of one tenant's users; 0 is off."""
    quota_login_bytes: Budget = 67_108_864
    """Bytes of one tenant's logins to servers; 0 is off."""

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
