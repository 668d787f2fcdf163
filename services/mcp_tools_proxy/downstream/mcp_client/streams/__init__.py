"""downstream/mcp_client/streams"""
