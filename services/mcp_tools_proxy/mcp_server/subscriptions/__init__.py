"""Notifications to MCP clients: lists that changed, resources that were updated.

``list_changes`` compares registries, ``delivery`` sends; ``listen_streams`` serves the newer era's
streams, ``session_subscriptions`` the sessions of the older eras.
"""
