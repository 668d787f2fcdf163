"""What operators see: one JSON log line for each event (contract §7) and Prometheus metrics.

Other packages log with ``structlog.get_logger()`` and count on the ``Metrics`` they receive. No
label has unbounded values: no tenant, user or document, ever. In names of events, which are
interfaces, "facade" is the MCP server (``mcp``) or the gateway as a whole.
"""
