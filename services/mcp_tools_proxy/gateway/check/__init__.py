"""The report of ``mcp-tools-proxy check`` as data; the package ``cli`` prints it."""
