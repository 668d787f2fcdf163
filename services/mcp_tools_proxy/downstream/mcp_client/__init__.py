"""The MCP client: how messages reach a server over streamable HTTP, HTTP+SSE, WebSocket or stdio.

Each transport carries JSON-RPC messages, knows nothing of their meaning, and converts every failure
of its own by ``error_mapping``.
"""
