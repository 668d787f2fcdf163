"""The routes of the audit (contract §1)."""

from collections.abc import Sequence

from mcp_tools_proxy.api.audit.audit_handlers import AuditHandlers
from mcp_tools_proxy.api.audit.audit_models import (
    AuditAnswer,
    AuditQuery,
    ExplainAnswer,
    RecordQuery,
)
from mcp_tools_proxy.api.audit.explain_handlers import ExplainHandlers
from mcp_tools_proxy.api.audit.stream_handlers import StreamHandlers
from mcp_tools_proxy.api.models import ExecuteRequest
from mcp_tools_proxy.api.openapi.examples import EXECUTE_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import (
    STREAM_RESPONSES,
    audit_responses,
    explain_responses,
)
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.web.fast_routes import DirectRoute


def audit_routes(
    build: RouteBuilder, audit: AuditHandlers, explain: ExplainHandlers, streams: StreamHandlers
) -> Sequence[DirectRoute]:
    """Build the routes; each needs the operator right ``audit``, see ``check_explain``."""
    return (
        build.get(
            "/internal/mcp/audit",
            audit.list_records,
            operation_id="list_audit_records",
            tag=Tag.AUDIT,
            summary="Search the audit log",
            description=(
                "Returns audit records, newest first: from the audit file, or without one the "
                "last 1,000 records of this replica. Requires the operator right `audit`."
            ),
            query=AuditQuery,
            responses=audit_responses(AuditAnswer, "The records."),
            headers=TRACED,
            needs_token=True,
        ),
        build.get(
            "/internal/mcp/calls/stream",
            streams.stream,
            operation_id="stream_audit_records",
            tag=Tag.AUDIT,
            summary="Stream audit records",
            description=(
                "Server-sent events with this replica's new audit records. `record` contains a "
                "record in the format of the audit log, without `seq` and `mac`, which are "
                "assigned when it is written. `lost` reports how many `records` a slow reader "
                "missed at this point. `end` closes the stream; its `reason` is an error code, "
                "such as UNAUTHENTICATED or SHUTTING_DOWN. At most 16 streams can be open. The "
                "right is checked repeatedly. Requires the operator right `audit`."
            ),
            query=RecordQuery,
            responses=STREAM_RESPONSES,
            headers=TRACED,
            needs_token=True,
        ),
        build.with_body(
            "POST",
            "/internal/mcp/explain",
            explain.explain,
            ExecuteRequest,
            operation_id="explain_call",
            tag=Tag.AUDIT,
            examples=EXECUTE_EXAMPLES,
            summary="Explain how a call would be handled",
            description=(
                "Takes the body of `execute`. Nothing is run or charged. The answer lists each "
                "check with its verdict, the deciding rule and its location, what would be sent "
                "to which target, and the remaining budgets. Missing logins are reported, but no "
                "issuer is contacted and no sign-in is started. Requires the operator right "
                "`audit`, unless presets can be switched without a token."
            ),
            responses=explain_responses(ExplainAnswer, "The explanation."),
            headers=TRACED,
            needs_token=explain.needs_token,
            before_body=explain.check_sender,
        ),
    )
