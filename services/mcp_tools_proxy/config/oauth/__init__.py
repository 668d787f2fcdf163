"""OAuth in mcp.json: ``auth`` of a server's entry, and the rules that it has to keep."""
