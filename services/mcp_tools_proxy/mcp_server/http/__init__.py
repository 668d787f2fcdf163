"""MCP over HTTP, as a server: streamable HTTP of all versions, and legacy HTTP+SSE.

``endpoints`` passes a request to what serves its era: ``stateless_http`` (with ``post_headers``,
``header_parameters`` and ``event_stream``) the newer one, ``stateful_http`` (with ``sessions``) the
older ones.
"""
