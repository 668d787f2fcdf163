"""The handler that shows records as they come to operators with the right ``audit``."""

from functools import partial

from fastapi import Response

from mcp_tools_proxy.api.audit.audit_models import RecordQuery
from mcp_tools_proxy.api.audit.record_stream import RecordStream
from mcp_tools_proxy.api.endpoint import ParsedRequest, single_values, validate
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.audit.audit_trail import AuditTrail
from mcp_tools_proxy.audit.record_feed import RecordFeed
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.web.request_refusals import RequestRefusals, add_to_operation
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER

MAX_STREAMS = 16
"""Streams of records that one replica has open at once."""

MAX_OF_TENANT = 4
"""Of these the operators of one tenant have so many: one of them had taken all 16."""

STREAM_ENDED = "audit.stream_ended"


class StreamHandlers:
    """Shows the records of this replica from now on, to MAX_STREAMS readers at most."""

    def __init__(
        self, trail: AuditTrail, gate: OperatorGate, lifecycle: Lifecycle, refusals: RequestRefusals
    ) -> None:
        self._trail = trail
        self._gate = gate
        self._lifecycle = lifecycle
        self._refusals = refusals

    async def stream(self, parsed: ParsedRequest[None]) -> Response:
        """Send the records that the query wants as they come."""
        query = validate(RecordQuery, single_values(parsed.request.query_params))
        operator = await self._gate.check(parsed, OperatorRight.AUDIT, tenant_id=query.tenant_id)
        self._lifecycle.check_serving()
        self._check_capacity(operator.tenant_id)
        feed = RecordFeed(query.wanted, reader_tenant=operator.tenant_id)
        # the response follows the trail before anything else is awaited, so no 17th comes between
        return RecordStream(
            self._trail,
            feed,
            check=partial(self._gate.admit, parsed, OperatorRight.AUDIT, tenant_id=query.tenant_id),
            stopping=self._lifecycle.stopping,
            on_end=partial(self._end, parsed, feed),
            headers={TRACE_HEADER: parsed.trace_id},
        )

    def _check_capacity(self, tenant_id: str | None) -> None:
        """Raise CapacityExceeded if nobody, or nobody of this tenant, may open one more stream."""
        if self._trail.followers >= MAX_STREAMS:
            raise CapacityExceeded(
                f"{MAX_STREAMS} streams of records are open at this replica, which is the limit; "
                "close one, or try again later"
            )
        if tenant_id is not None and self._trail.followers_of(tenant_id) >= MAX_OF_TENANT:
            raise CapacityExceeded(
                f"operators of this tenant have {MAX_OF_TENANT} streams of records open at this "
                "replica, which is the limit; close one, or try again later"
            )

    def _end(self, parsed: ParsedRequest[None], feed: RecordFeed, code: str, sent: int) -> None:
        scope = parsed.request.scope
        add_to_operation(scope, STREAM_ENDED, records=sent, lost=feed.lost)
        self._refusals.record_operation(scope, code, parsed.trace_id)
