"""The routes of the audit (contract §1)."""

from collections.abc import Sequence

from mcp_tools_proxy.api.audit.audit_handlers import AuditHandlers
from mcp_tools_proxy.api.audit.audit_models import AuditAnswer, AuditQuery
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import audit_responses
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.web.fast_routes import DirectRoute


def audit_routes(build: RouteBuilder, audit: AuditHandlers) -> Sequence[DirectRoute]:
    """Build the routes; each needs the operator right ``audit``."""
    return (
        build.get(
            "/internal/mcp/audit",
            audit.list_records,
            operation_id="list_audit_records",
            tag=Tag.AUDIT,
            summary="List the records of attempts",
            description=(
                "The newest first. Of the audit file, or without one the newest 1,000 of this "
                "replica. Needs the right `audit`."
            ),
            query=AuditQuery,
            responses=audit_responses(AuditAnswer, "The records."),
            headers=TRACED,
            needs_token=True,
        ),
    )
