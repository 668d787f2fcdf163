"""MCP server over HTTP, SSE and stdio.

Contains no policy: calls go to the executor, lists come from the registry. ``stateless`` serves the
newer era, ``handshake_session`` the older ones. ``http/`` and ``stdio`` are the transports.
``list_changes`` and ``subscriptions`` send change notifications.
"""
