"""The handler that shows the records of attempts to operators with the right ``audit``."""

import asyncio

from fastapi import Response

from mcp_tools_proxy.api.audit.audit_models import AuditQuery
from mcp_tools_proxy.api.endpoint import ParsedRequest, single_values, validate
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.audit.audit_trail import AuditTrail
from mcp_tools_proxy.audit.record_search import search_files, search_memory
from mcp_tools_proxy.domain.errors import AuditUnavailable
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER


class AuditHandlers:
    """Shows records: those of the audit file, or else the newest of this process."""

    def __init__(self, trail: AuditTrail, gate: OperatorGate) -> None:
        self._trail = trail
        self._gate = gate

    async def list_records(self, parsed: ParsedRequest[None]) -> Response:
        """List the records that the query wants, the newest first."""
        query = validate(AuditQuery, single_values(parsed.request.query_params))
        await self._gate.check(parsed, OperatorRight.AUDIT, tenant_id=query.tenant_id)
        wanted, cursor, limit = query.wanted, query.cursor, query.limit
        trail, unauthenticated = self._trail, query.is_apart
        file = trail.unauthenticated_file if unauthenticated else trail.file
        if file is None:
            recent = trail.recent(unauthenticated=unauthenticated)
            page = search_memory(recent, wanted, cursor=cursor, limit=limit)
        else:
            try:
                page = await asyncio.to_thread(
                    search_files, file.path, wanted, cursor=cursor, limit=limit
                )
            except OSError as error:
                raise AuditUnavailable(
                    "the audit file cannot be read now; try again later", reason=error.strerror
                ) from error
        answer: dict[str, object] = {"records": page.records}
        if page.next_cursor is not None:
            answer["next_cursor"] = page.next_cursor
        return json_response(answer, headers={TRACE_HEADER: parsed.trace_id})
