"""mcp_server/notify"""
