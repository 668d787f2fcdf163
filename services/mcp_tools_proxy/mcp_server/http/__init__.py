"""MCP over HTTP, as a server: streamable HTTP of all versions, and legacy HTTP+SSE.

``endpoints`` routes a request, ``authentication`` admits it, ``stateless_http`` answers modern
requests, ``session_manager`` and ``json_responses`` serve the sessions of older eras.
"""
