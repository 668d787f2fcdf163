"""MCP out: many sessions over one WebSocket that is dialled out to a backend.

What is served knows no WebSocket, and the frames know no MCP: a conversation takes and gives parsed
JSON, one for each session that the backend names.
"""
