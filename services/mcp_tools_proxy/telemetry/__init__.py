"""Telemetry: one JSON log line per event (contract §7), audit records, metrics and spans.

Other packages log with ``structlog.get_logger()``, and count on the ``Metrics`` they receive.
Labels never have unbounded values such as tenants, users or documents. In event names, which are
interfaces, "facade" is the MCP server (``mcp``) or the gateway.
"""
