"""What clients on aiohttp share: sockets with TCP options, WebSockets without redirects.

For MCP servers (``downstream``) and the remote backend (``connector``). Nothing here knows MCP.
"""
