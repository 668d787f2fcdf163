"""Downstream MCP servers: sessions with them, what they offer, and calls to it.

Imports go one way, from ``components`` to the seam, ``connection``: components, pool, session,
what a session uses. Behind the seam, ``mcp_client`` holds the transports, the only code that knows
the client of the ``mcp`` package. Every failure there arrives above as one of the exceptions of
``connection``, and leaves this package as one of ``domain.errors``.
"""
