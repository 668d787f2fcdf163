"""MCP over HTTP, as a server: streamable HTTP of all versions, and legacy HTTP+SSE.

``endpoints`` passes a request to what serves its era: ``stateless_http`` (with ``http_request`` and
``event_streams``) the newer one, ``stateful_http`` the older ones. ``session_ids`` signs and reads
the ids of their sessions, which any replica with the key can serve; ``session_records`` has what is
remembered of each, ``shared_sessions`` what replicas tell each other of it by Redis, and
``live_sessions`` what a client has open.
"""
