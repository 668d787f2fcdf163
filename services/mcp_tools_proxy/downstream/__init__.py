"""Downstream MCP servers: sessions, offered components, and calls.

Imports go one way: ``components``, pool, session, the parts of a session, ``connection``.
``connection`` is the interface of the transports in ``mcp_client``, the only code that uses the
client of the ``mcp`` package. Failures of transports are exceptions of ``connection``; the errors
that leave this package are those of ``domain.errors``.
"""
