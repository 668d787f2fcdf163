"""MCP over streamable HTTP and over legacy HTTP+SSE, as a client."""
