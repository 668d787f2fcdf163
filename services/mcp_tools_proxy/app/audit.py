"""Builds the audit that the settings select."""

from mcp_tools_proxy.audit.audit_file import AuditFile
from mcp_tools_proxy.audit.audit_trail import AuditTrail
from mcp_tools_proxy.settings.audit import read_key
from mcp_tools_proxy.settings.settings import Settings


def build_audit(settings: Settings) -> AuditTrail:
    """Build the audit; nothing is opened. Raises ValueError for an unusable key."""
    path = settings.audit_path
    if path is None:
        return AuditTrail()
    return AuditTrail(
        AuditFile(
            path,
            key=read_key(settings.audit_key_file),
            max_bytes=settings.audit_max_bytes,
            keep_files=settings.audit_keep_files,
            required=settings.audit_required,
        )
    )
