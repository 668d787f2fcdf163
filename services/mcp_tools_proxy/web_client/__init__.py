"""What clients of other services share: pauses between attempts, addresses, failures in words.

For MCP servers (``downstream``), the remote backend (``connector``) and others. Nothing here knows
MCP.
"""
