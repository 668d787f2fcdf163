"""MCP over streamable HTTP and over HTTP+SSE (2024-11-05), as a client."""
