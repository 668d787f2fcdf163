"""downstream/mcp_client/http"""
