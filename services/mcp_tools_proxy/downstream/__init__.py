"""Downstream MCP servers: sessions with them, what they offer, and the calls of it.

``connection`` is the seam. Below it, ``mcp_client`` holds the transports, the only code that knows
the client of the ``mcp`` package. Above it are sessions, ``discovery``, ``components``, ``relay``
and ``subscriptions``. Every failure below arrives above as one of the exceptions of ``connection``,
and leaves this package as one of ``domain.errors``.
"""
