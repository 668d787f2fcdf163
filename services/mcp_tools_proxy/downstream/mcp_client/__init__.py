"""The MCP client: streamable HTTP, HTTP+SSE, WebSocket and stdio.

Each transport carries JSON-RPC messages without interpreting them, and converts its failures by
``error_mapping``.
"""
