"""MCP out: many sessions over one WebSocket that the gateway opens to a remote backend.

``backend_dialer`` keeps the link up, ``frame_router`` hands its frames to sessions and buffers what
they send. A session exchanges parsed JSON and knows no WebSocket; frames know no MCP.
"""
