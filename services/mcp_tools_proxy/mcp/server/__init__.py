"""MCP in: serves what a caller may list and use as an MCP server, over HTTP, SSE and stdio.

Nothing is decided here: every call goes to the executor, and every list comes from the registry.
``stateless`` serves the newer era, ``handshake_session`` the older ones. ``http/`` and ``stdio``
are the transports. ``list_changes`` and ``subscriptions`` send change notifications.
"""
