"""MCP server over HTTP: streamable HTTP of all versions, and legacy HTTP+SSE.

``endpoints`` routes each request by its era: ``stateless_http`` (with ``http_request`` and
``event_streams``) serves the newer one, ``stateful_http`` the older ones. ``session_ids`` signs and
reads session ids, ``session_records`` stores the state of sessions, ``shared_sessions`` shares it
over Redis, and ``live_sessions`` holds open streams and requests.
"""
