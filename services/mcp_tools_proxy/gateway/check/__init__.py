"""What ``mcp-tools-proxy check`` finds."""
