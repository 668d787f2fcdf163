"""The application under the original service's name: ``uvicorn mcp_tools_proxy.main:app``."""

from mcp_tools_proxy.asgi import app

__all__ = ["app"]
