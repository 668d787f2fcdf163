from tests.mcp_server.clients.gateway_program import entries

__all__ = ["entries"]
