"""Builds the audit that the settings select, and what takes the record of each call."""

from collections.abc import Callable

from mcp_tools_proxy.audit.audit_file import AuditFile
from mcp_tools_proxy.audit.audit_paths import unauthenticated_path
from mcp_tools_proxy.audit.audit_trail import AuditTrail
from mcp_tools_proxy.domain.outcome import CallRecord
from mcp_tools_proxy.settings.observability import read_key
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.telemetry.call_events import CallTelemetry
from mcp_tools_proxy.telemetry.recent_calls import RecentCalls
from mcp_tools_proxy.telemetry.tracing.call_spans import describe_call

_UNAUTHENTICATED_FILES = 4
"""Renamed files of unauthenticated requests that are kept."""


def build_audit(settings: Settings) -> AuditTrail:
    """Build the audit; nothing is opened. Raises ValueError for an unusable key."""
    path = settings.audit_path
    if path is None:
        return AuditTrail()
    key, companion = read_key(settings.audit_key_file), unauthenticated_path(path)
    return AuditTrail(
        AuditFile(
            path,
            key=key,
            max_bytes=settings.audit_max_bytes,
            keep_files=settings.audit_keep_files,
            required=settings.audit_required,
            companion=companion.name,
        ),
        AuditFile(
            companion,
            key=key,
            max_bytes=max(1, settings.audit_unauthenticated_bytes // (_UNAUTHENTICATED_FILES + 1)),
            keep_files=_UNAUTHENTICATED_FILES,
            required=False,
        ),
    )


def take_records(
    telemetry: CallTelemetry, recent_calls: RecentCalls | None, *, is_traced: bool
) -> Callable[[CallRecord], None]:
    """Return what takes the record of each call that is over: only what the settings want."""
    takers = [telemetry.log_end]
    if is_traced:
        takers.append(describe_call)
    if recent_calls is not None:
        takers.append(recent_calls.add)
    if len(takers) == 1:
        return telemetry.log_end

    def take(record: CallRecord) -> None:
        for taker in takers:
            taker(record)

    return take
