"""What is replaced in texts of mcp.json: variables of the environment, parts of the caller."""
