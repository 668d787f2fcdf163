"""How bytes reach a server: streamable HTTP, legacy SSE, WebSocket, stdio.

Each is a wire for ``conversation``: it carries JSON-RPC messages, knows nothing of what they are
about, and turns every failure of its own into ``failures``. Only these modules import aiohttp.
"""
