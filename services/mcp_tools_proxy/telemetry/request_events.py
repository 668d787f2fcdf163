"""The log lines of requests that never become a call (contract §7)."""

import structlog

from mcp_tools_proxy.domain.errors import ProxyError

REASON_CHARS = 256

log = structlog.get_logger()


def log_refused(error: ProxyError, trace_id: str, *, route: str, peer: str, **proven: str) -> None:
    """Log a request refused with ``error``: reason, route, and the peer or proven identity."""
    field = (error.details or {}).get("field")
    where = {} if field is None else {"field": field}
    log.warning(
        "request.refused",
        trace_id=trace_id,
        code=error.code,
        reason=(error.reason or error.message)[:REASON_CHARS],
        **where,
        route=route,
        peer=peer,
        **proven,
    )


def log_tokens_refused(*, requests: int, addresses: int, peer: str, requests_of_peer: int) -> None:
    """Log how many requests with bad tokens were refused since the last such line.

    They are counted instead of logged one by one. ``peer`` sent the most of them.
    """
    log.warning(
        "request.tokens_refused",
        code="UNAUTHENTICATED",
        requests=requests,
        addresses=addresses,
        peer=peer,
        requests_of_peer=requests_of_peer,
    )
