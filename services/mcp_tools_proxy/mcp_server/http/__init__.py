"""MCP over HTTP, as a server: streamable HTTP of all versions, and legacy HTTP+SSE."""
