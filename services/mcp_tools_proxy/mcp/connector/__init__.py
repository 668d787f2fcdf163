"""Many MCP sessions over one WebSocket that the gateway opens to a remote backend.

``backend_dialer`` keeps the link up; ``frame_router`` routes its frames to sessions and buffers the
frames that they send. Sessions exchange parsed JSON, without WebSocket; frames know no MCP.
"""
