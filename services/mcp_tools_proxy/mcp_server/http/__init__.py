"""mcp_server/http"""
