"""MCP over stdio and WebSocket, as a client."""
