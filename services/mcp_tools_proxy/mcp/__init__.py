"""MCP: ``server`` serves MCP clients, ``connector`` carries sessions to a remote backend."""
